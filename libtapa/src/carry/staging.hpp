/// @file
/// What a call needs of its blocks beyond the program's: copies, types.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "memory/reserve.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/private_comm.hpp"

namespace tapa {

/// Blocks as dense bytes: where they lie, or packed in memory that is kept between calls, see trim().
class Staging {
 public:
  /// Packs what is sent and not dense, or may be overwritten; makes room for the rest. Throws CallError.
  void pack(const Exchange& exchange) {
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
  /// Puts what has arrived in that room where it belongs. Throws CallError.
  void unpack(const Exchange& exchange) const {
    for (std::size_t s = 0; s < exchange.recv.size(); ++s) {
      const Block& block = exchange.recv[s];
      if (!block.dense() && block.bytes > 0) scatter_block(recv_[s], block, alone_comm());
    }
  }

  /// By peer.
  [[nodiscard]] const std::vector<const std::byte*>& send() const { return send_; }
  [[nodiscard]] const std::vector<std::byte*>& recv() const { return recv_; }

  /// What one large call needed is not kept for all that follow.
  void trim(std::size_t most) {
    if (size_ <= most) return;
    memory_.reset();
    size_ = 0;
  }

 private:
  static std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t align = 64;
    return (bytes + align - 1) / align * align;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
  std::vector<const std::byte*> send_;
  std::vector<std::byte*> recv_;
};

/// Datatypes of a call that lasts longer than the program may keep them.
class HeldTypes {
 public:
  HeldTypes() = default;
  ~HeldTypes() { free(); }
  HeldTypes(const HeldTypes&) = delete;
  HeldTypes& operator=(const HeldTypes&) = delete;

  /// Puts types of our own in the place of those of blocks. Throws CallError.
  void hold(std::vector<Block>& blocks) {
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
  void free() {
    for (MPI_Datatype& type : types_) PMPI_Type_free(&type);
    types_.clear();
  }

 private:
  std::vector<MPI_Datatype> types_;
};

}  // namespace tapa
