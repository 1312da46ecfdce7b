// The run of an operation through memory that all ranks share.
#include <algorithm>
#include <utility>

#include "comm/operation.hpp"
#include "run/error.hpp"
#include "run/private_comm.hpp"

namespace tapa {

// One exchange at a time: the operation before this one may still be under way. Then it stays first in the
// queue of the communicator, so that all ranks use the buffers in the same order.
bool Operation::launch_memory() {
  if (!buffers_->claim()) return false;
  try {
    if (sample_is_due()) sample_mpi();
    begin_memory();
  } catch (...) {
    buffers_->release();
    throw;
  }
  stage_ = Stage::running;
  return true;
}

// A rank that has no memory for its blocks, or a datatype that MPI refuses to pack, is waited for all the
// same.
void Operation::begin_memory() {
  if (const auto equal = equal_blocks())
    return shm_exchange_.begin(*buffers_, equal->send, equal->recv, exchange_.uniform_bytes);
  shm_blocks_.describe(exchange_, alone_comm());
  const bool sums = options_->settings().check == Check::data;
  const bool overlaps = exchange_.overlaps && ShmExchange::fits(*buffers_, shm_blocks_.send);
  if (sums || overlaps != exchange_.overlaps) {
    staged_ = shm_blocks_.prepare([this] { stage_for_memory(); });
    if (staged_ && sums) start_sums();
  }
  shm_exchange_.begin(*buffers_, shm_blocks_.send, shm_blocks_.recv, &shm_blocks_, overlaps && !sums,
                      !compares()         ? ShmExchange::Compare::nothing
                      : exchange_.uniform ? ShmExchange::Compare::sums
                                          : ShmExchange::Compare::blocks);
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

/// Blocks go through memory of our own.
void Operation::stage_for_memory() {
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
    if (compares() && !shm_exchange_.sizes_agree()) return true;  // all ranks say which block it is
    throw;
  }
}

}  // namespace tapa
