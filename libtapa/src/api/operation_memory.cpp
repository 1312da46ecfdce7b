// The run of an operation through memory that all ranks share.
#include "api/error.hpp"
#include "api/operation.hpp"

namespace tapa {

// One exchange at a time: the operation before this one may still be under way. Then it stays first in the
// queue of the communicator, so that all ranks use the board in the same order.
bool Operation::launch_memory() {
  if (!board_->claim()) return false;
  if (sample_is_due()) sample_mpi();
  describe_blocks();
  if (options_->settings().check == Check::data) start_sums();
  board_exchange_.begin(*board_, board_send_, board_recv_, this, exchange_.in_place && !staged_);
  stage_ = Stage::running;
  return true;
}

/// Blocks as the board wants them. Those that are not dense are packed straight into shared memory.
void Operation::describe_blocks() {
  board_send_.clear();
  board_recv_.clear();
  const auto describe = [](const Block& b) { return BoardBlock{b.dense() ? b.data : nullptr, b.bytes}; };
  for (const Block& b : exchange_.send) board_send_.push_back(describe(b));
  const bool overwritten = exchange_.in_place && !BoardExchange::fits(*board_, board_send_);
  if (!overwritten && options_->settings().check != Check::data) {
    for (const Block& b : exchange_.recv) board_recv_.push_back(describe(b));
    return;
  }
  stage_blocks();
  for (std::size_t i = 0; i < send_.size(); ++i) {
    board_send_[i].data = const_cast<std::byte*>(send_[i]);  // only read
    board_recv_.push_back({recv_[i], exchange_.recv[i].bytes});
  }
}

bool Operation::step_memory(bool block) {
  constexpr int patience = 50;  // pauses in one call
  try {
    const auto done = [this] { return board_exchange_.advance(); };
    if (done()) {
      board_->release();
      return true;
    }
    Waiter waiter = state_->waiter();
    for (int idle = 0; block && idle < patience; ++idle) {
      waiter.pause(idle, true, done);
      waiter.count_quiet_poll();
      if (!done()) continue;
      board_->release();
      return true;
    }
    return false;
  } catch (...) {
    board_->release();
    throw;
  }
}

void Operation::gather(std::size_t member, std::byte* to) {
  gather_block(exchange_.send[member], to, state_->comm());
}

void Operation::scatter(std::size_t member, const std::byte* from) {
  scatter_block(from, exchange_.recv[member], state_->comm());
}

std::byte* Operation::room(std::size_t member, bool sent) {
  const std::size_t ranks = exchange_.send.size();
  rooms_.resize(2 * ranks);
  std::vector<std::byte>& memory = rooms_[sent ? member : ranks + member];
  const std::size_t bytes = (sent ? exchange_.send : exchange_.recv)[member].bytes;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace tapa
