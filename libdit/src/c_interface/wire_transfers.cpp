// What a wire does for all of its transfers.
#include <algorithm>

#include "c_interface/transfer.hpp"

void dit_wire::add(dit_transfer& made) {
  const std::scoped_lock lock(mutex_);
  transfers_.push_back(&made);
}

void dit_wire::remove(const dit_transfer& freed) {
  const std::scoped_lock lock(mutex_);
  std::erase(transfers_, &freed);
}

int dit_wire::transfers() {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(transfers_.size());
}

void dit_wire::forget(void* stream) {
  const std::scoped_lock lock(mutex_);
  for (const dit_transfer* const transfer : transfers_) {
    transfer->require_forgettable();  // all of them forget, or none
  }
  for (dit_transfer* const transfer : transfers_) {
    transfer->forget(stream);
  }
  rows_.reset();
  device_rows_.reset();
  for (Visit& visit : visits_) {
    visit.place.reset();
    visit.first = false;
    std::ranges::fill(visit.taken, std::uint8_t{0});
  }
  std::ranges::fill(seen_, std::uint8_t{0});
}

void dit_wire::have_travelled(int branch) {
  const std::scoped_lock lock(mutex_);
  for (dit_transfer* const transfer : transfers_) {
    transfer->have_travelled(branch);
  }
}
