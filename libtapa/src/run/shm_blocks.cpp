#include "run/shm_blocks.hpp"

#include <new>
#include <string>
#include <utility>

#include "memory/reserve.hpp"
#include "run/datatype.hpp"
#include "run/error.hpp"

namespace tapa {

namespace {

ShmBlock described(const Block& block) {
  if (block.dense()) return {block.data, block.bytes, 0};
  return {nullptr, block.bytes, block.type != MPI_DATATYPE_NULL ? type_info(block.type).part() : 0};
}

}  // namespace

// The exchange knows no errors of MPI's.
template <class Step>
void ShmBlocks::packing(const Step& step) const {
  if (failure_) throw *failure_;
  try {
    step();
  } catch (const CallError& e) {
    throw TransportError(e.what(), e.code());
  } catch (const std::bad_alloc&) {
    throw TransportError(TransportError::no_memory());
  }
}

bool ShmBlocks::prepare(const std::function<void()>& step) {
  try {
    packing(step);
    return true;
  } catch (const TransportError& e) {
    failure_ = e;
  }
  for (auto* const blocks : {&send, &recv})
    for (ShmBlock& block : *blocks) block = {nullptr, block.bytes, 0};
  return false;
}

void ShmBlocks::describe(const Exchange& exchange, MPI_Comm comm) {
  failure_.reset();
  exchange_ = &exchange;
  comm_ = comm;
  send.clear();
  recv.clear();
  for (const Block& b : exchange.send) send.push_back(described(b));
  for (const Block& b : exchange.recv) recv.push_back(described(b));
}

void ShmBlocks::gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) {
  const Block& block = exchange_->send[member];
  packing([&] {
    if (bytes == block.bytes) return gather_block(block, to, comm_);
    pack_part(block.data, begin, bytes, block.type, type_info(block.type), to, comm_);
  });
}

void ShmBlocks::scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) {
  const Block& block = exchange_->recv[member];
  packing([&] {
    if (bytes == block.bytes) return scatter_block(from, block, comm_);
    if (!block.parts.empty()) {
      throw CallError(MPI_ERR_TRUNCATE, "the blocks from rank " + std::to_string(member) + " have " +
                                            std::to_string(bytes) + " bytes together, expected " +
                                            std::to_string(block.bytes));
    }
    unpack_part(from, block.data, begin, bytes, block.type, type_info(block.type), comm_);
  });
}

void ShmBlocks::prepare_copy(std::size_t member) {
  packing([&] {
    const Block& from = exchange_->send[member];
    if (!is_copied_straight(from, exchange_->recv[member])) room(member, true, from.bytes);
  });
}

void ShmBlocks::copy(std::size_t member) {
  const Block& from = exchange_->send[member];
  const Block& to = exchange_->recv[member];
  if (is_copied_straight(from, to)) return packing([&] { copy_block(from, to, comm_); });
  std::byte* const packed = room(member, true, from.bytes);
  packing([&] {
    gather_block(from, packed, comm_);
    scatter_block(packed, to, comm_);
  });
}

std::byte* ShmBlocks::room(std::size_t member, bool sent, std::size_t bytes) {
  const std::size_t ranks = exchange_->send.size();
  packing([&] { rooms_.resize(2 * ranks); });
  Room& room = rooms_[sent ? member : ranks + member];
  if (room.bytes < bytes) {
    packing([&] { room.memory = memory::for_blocks(bytes); });
    held_bytes_ += bytes - std::exchange(room.bytes, bytes);
  }
  return room.memory.get();
}

void ShmBlocks::release_rooms() {
  if (held_bytes_ <= kKeptBytes) return;
  rooms_.clear();
  held_bytes_ = 0;
}

}  // namespace tapa
