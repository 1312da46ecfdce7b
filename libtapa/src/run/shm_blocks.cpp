#include "run/shm_blocks.hpp"

#include "run/datatype.hpp"

namespace tapa {

namespace {

ShmBlock described(const Block& block) {
  if (block.dense()) return {block.data, block.bytes, 0};
  return {nullptr, block.bytes, block.runs.empty() ? type_info(block.type).size : 0};
}

/// A part of a block, in elements of its datatype; or all of it.
Block part_of(const Block& block, std::size_t begin, std::size_t bytes) {
  if (bytes == block.bytes) return block;
  const TypeInfo info = type_info(block.type);
  Block part = block;
  part.data = address_at(block.data, static_cast<MPI_Aint>(begin / info.size) * info.extent);
  part.bytes = bytes;
  part.count = static_cast<MPI_Count>(bytes / info.size);
  return part;
}

}  // namespace

void ShmBlocks::describe(const Exchange& exchange, MPI_Comm comm) {
  exchange_ = &exchange;
  comm_ = comm;
  send.clear();
  recv.clear();
  for (const Block& b : exchange.send) send.push_back(described(b));
  for (const Block& b : exchange.recv) recv.push_back(described(b));
}

void ShmBlocks::gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) {
  gather_block(part_of(exchange_->send[member], begin, bytes), to, comm_);
}

void ShmBlocks::scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) {
  scatter_block(from, part_of(exchange_->recv[member], begin, bytes), comm_);
}

std::byte* ShmBlocks::room(std::size_t member, bool sent) {
  const std::size_t ranks = exchange_->send.size();
  rooms_.resize(2 * ranks);
  std::vector<std::byte>& memory = rooms_[sent ? member : ranks + member];
  const std::size_t bytes = (sent ? exchange_->send : exchange_->recv)[member].bytes;
  if (memory.size() < bytes) {
    held_bytes_ += bytes - memory.size();
    memory = std::vector<std::byte>(bytes);
  }
  return memory.data();
}

void ShmBlocks::release_rooms() {
  if (held_bytes_ <= kKeptBytes) return;
  rooms_.clear();
  held_bytes_ = 0;
}

}  // namespace tapa
