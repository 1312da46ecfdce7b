/// @file
/// What a call needs of its blocks beyond the program's: copies, types.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "run/arguments.hpp"

namespace tapa {

/// Blocks as dense bytes: where they lie, or packed in memory that is kept between calls, see trim().
class Staging {
 public:
  /// Packs what is sent and not dense, or may be overwritten; makes room for the rest. Throws CallError.
  void pack(const Exchange& exchange);
  /// Puts what has arrived in that room where it belongs. Throws CallError.
  void unpack(const Exchange& exchange) const;

  /// By peer.
  [[nodiscard]] const std::vector<const std::byte*>& send() const { return send_; }
  [[nodiscard]] const std::vector<std::byte*>& recv() const { return recv_; }

  /// What one large call needed is not kept for all that follow.
  void trim(std::size_t most);

 private:
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
  void hold(std::vector<Block>& blocks);
  void free();

 private:
  std::vector<MPI_Datatype> types_;
};

}  // namespace tapa
