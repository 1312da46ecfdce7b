#include "api/board_blocks.hpp"

namespace tapa {

void BoardBlocks::describe(const Exchange& exchange, MPI_Comm comm) {
  exchange_ = &exchange;
  comm_ = comm;
  send.clear();
  recv.clear();
  const auto described = [](const Block& b) { return BoardBlock{b.dense() ? b.data : nullptr, b.bytes}; };
  for (const Block& b : exchange.send) send.push_back(described(b));
  for (const Block& b : exchange.recv) recv.push_back(described(b));
}

void BoardBlocks::gather(std::size_t member, std::byte* to) {
  gather_block(exchange_->send[member], to, comm_);
}

void BoardBlocks::scatter(std::size_t member, const std::byte* from) {
  scatter_block(from, exchange_->recv[member], comm_);
}

std::byte* BoardBlocks::room(std::size_t member, bool sent) {
  const std::size_t ranks = exchange_->send.size();
  rooms_.resize(2 * ranks);
  std::vector<std::byte>& memory = rooms_[sent ? member : ranks + member];
  const std::size_t bytes = (sent ? exchange_->send : exchange_->recv)[member].bytes;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace tapa
