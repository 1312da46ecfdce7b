// The run of an operation through memory that all ranks share.
#include <algorithm>
#include <utility>

#include "comm/operation.hpp"
#include "run/error.hpp"

namespace tapa {

// One exchange at a time: the operation before this one may still be under way. Then it stays first in the
// queue of the communicator, so that all ranks use the buffers in the same order.
bool Operation::launch_memory() {
  if (!buffers_->claim()) return false;
  if (sample_is_due()) sample_mpi();
  if (const auto equal = equal_blocks()) {
    shm_exchange_.begin(*buffers_, equal->send, equal->recv, exchange_.uniform_bytes);
  } else {
    describe_blocks();
    if (options_->settings().check == Check::data) start_sums();
    shm_exchange_.begin(*buffers_, shm_blocks_.send, shm_blocks_.recv, &shm_blocks_,
                        exchange_.overlaps && !staged_);
  }
  stage_ = Stage::running;
  return true;
}

/// The first blocks of both sides when all are equal, dense, lie one after the other and need no staging:
/// these need no table.
std::optional<Operation::EqualBlocks> Operation::equal_blocks() const {
  if (!exchange_.uniform || options_->settings().check == Check::data) return std::nullopt;
  const std::byte* const send = in_row(exchange_.send, exchange_.uniform_bytes);
  std::byte* const recv = in_row(exchange_.recv, exchange_.uniform_bytes);
  if (send == nullptr || recv == nullptr) return std::nullopt;
  const bool fits = send == recv && ShmExchange::fits(*buffers_, exchange_.uniform_bytes);
  if (exchange_.overlaps && !fits) return std::nullopt;
  return EqualBlocks{send, recv};
}

/// Blocks as the shared-memory exchange wants them; through memory of our own where that must be.
void Operation::describe_blocks() {
  shm_blocks_.describe(exchange_, state_->comm());
  const bool overwritten = exchange_.overlaps && !ShmExchange::fits(*buffers_, shm_blocks_.send);
  if (!overwritten && options_->settings().check != Check::data) return;
  stage_blocks();
  for (std::size_t i = 0; i < send_.size(); ++i) {
    shm_blocks_.send[i].data = const_cast<std::byte*>(send_[i]);  // only read
    shm_blocks_.recv[i].data = recv_[i];
  }
}

bool Operation::step_memory(bool block) {
  constexpr int patience = 50;  // pauses in one call
  try {
    const auto done = [this] { return shm_exchange_.advance(); };
    if (done()) {
      buffers_->release();
      return true;
    }
    Waiter waiter = state_->waiter();
    for (int idle = 0; block && idle < patience; ++idle) {
      waiter.pause(idle, true, done);
      waiter.count_quiet_poll();
      if (!done()) continue;
      buffers_->release();
      return true;
    }
    return false;
  } catch (...) {
    buffers_->release();
    throw;
  }
}

}  // namespace tapa
