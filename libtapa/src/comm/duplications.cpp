#include "comm/duplications.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace tapa {

namespace {

std::atomic<int> open{0};

// Those that are open and remembered. Of more than fit it is never known that they are complete.
constexpr std::size_t kMost = 64;
std::mutex mutex;  // of both
std::array<MPI_Comm, kMost> made_comms{};
std::size_t remembered = 0;

/// Whether it was among them. Precondition: locked.
bool forget(MPI_Comm comm) {
  const auto end = made_comms.begin() + static_cast<std::ptrdiff_t>(remembered);
  const auto found = std::find(made_comms.begin(), end, comm);
  if (found == end) return false;
  *found = made_comms[--remembered];
  open.fetch_sub(1);
  return true;
}

}  // namespace

void duplication_begins() {
  open.fetch_add(1);
}

void duplication_began(const MPI_Comm* made) {
  if (made == nullptr) {
    open.fetch_sub(1);
    return;
  }
  const std::lock_guard lock(mutex);
  forget(*made);  // the handle comes again, so what had it was complete and is freed
  if (*made != MPI_COMM_NULL && remembered < kMost) made_comms[remembered++] = *made;
}

void note_in_use(MPI_Comm comm) {
  if (!may_be_duplicating()) return;
  const std::lock_guard lock(mutex);
  forget(comm);
}

bool may_be_duplicating() {
  return open.load(std::memory_order_acquire) != 0;
}

}  // namespace tapa
