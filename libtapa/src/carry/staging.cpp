#include "carry/staging.hpp"

#include <utility>

#include "memory/reserve.hpp"
#include "run/error.hpp"
#include "run/private_comm.hpp"

namespace tapa {

namespace {

constexpr std::size_t kAlign = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

void Staging::pack(const Exchange& exchange) {
  std::size_t total = 0;
  for (const Block& b : exchange.send) total += exchange.overlaps || !b.dense() ? aligned(b.bytes) : 0;
  for (const Block& b : exchange.recv) total += b.dense() ? 0 : aligned(b.bytes);
  if (total > size_) {
    memory_ = memory::for_blocks(total);
    size_ = total;
  }
  std::byte* next = memory_.get();
  const auto take = [&](std::size_t bytes) { return std::exchange(next, next + aligned(bytes)); };
  send_.clear();
  recv_.clear();
  for (const Block& b : exchange.send) {
    const bool direct = b.dense() && !exchange.overlaps;
    send_.push_back(direct ? b.data : take(b.bytes));
    if (!direct && b.bytes > 0) gather_block(b, const_cast<std::byte*>(send_.back()), alone_comm());
  }
  for (const Block& b : exchange.recv) {
    recv_.push_back(b.dense() ? b.data : take(b.bytes));
    // What is shorter than expected leaves the rest of the receiver's memory as it is.
    if (!b.dense() && b.bytes > 0 && !exchange.uniform) gather_block(b, recv_.back(), alone_comm());
  }
}

void Staging::unpack(const Exchange& exchange) const {
  for (std::size_t s = 0; s < exchange.recv.size(); ++s) {
    const Block& block = exchange.recv[s];
    if (!block.dense() && block.bytes > 0) scatter_block(recv_[s], block, alone_comm());
  }
}

void Staging::trim(std::size_t most) {
  if (size_ <= most) return;
  memory_.reset();
  size_ = 0;
}

void HeldTypes::hold(std::vector<Block>& blocks) {
  MPI_Datatype last = MPI_DATATYPE_NULL;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  for (Block& block : blocks) {
    if (block.type == MPI_DATATYPE_NULL) continue;
    if (block.type != last) {
      last = block.type;
      // Not a duplicate: that would call the user's functions that copy attributes.
      check_mpi(PMPI_Type_contiguous(1, last, &copy), "MPI_Type_contiguous");
      types_.push_back(copy);
      check_mpi(PMPI_Type_commit(&copy), "MPI_Type_commit");
    }
    block.type = copy;
  }
}

void HeldTypes::free() {
  for (MPI_Datatype& type : types_) PMPI_Type_free(&type);
  types_.clear();
}

}  // namespace tapa
