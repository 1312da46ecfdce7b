#include "comm/retired_comms.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "run/progress.hpp"

namespace tapa {

namespace {

struct Retired {
  std::mutex mutex;
  std::vector<MPI_Comm> comms;
};

// Never destroyed: MPI may end after static objects do.
Retired& retired() {
  static auto* const instance = new Retired;
  return *instance;
}

}  // namespace

void retire(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  if (!Progress::is_inside()) {
    PMPI_Comm_free(&comm);
    return;
  }
  const std::lock_guard lock(retired().mutex);
  retired().comms.push_back(comm);
}

void free_retired() {
  std::vector<MPI_Comm> comms;
  {
    const std::lock_guard lock(retired().mutex);
    comms = std::exchange(retired().comms, {});
  }
  for (MPI_Comm& comm : comms) PMPI_Comm_free(&comm);
}

}  // namespace tapa
