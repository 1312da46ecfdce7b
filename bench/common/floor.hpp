/// @file
/// The time that no all-to-all inside a node can beat: every rank copies its blocks once, straight from
/// memory that the others share with it, and nobody waits for anybody.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "exchange.hpp"

namespace tapa::bench {

/// Buffers and copies of that floor. Nothing when the ranks do not all share memory.
class Floor {
 public:
  explicit Floor(MPI_Comm comm);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  [[nodiscard]] bool possible() const { return possible_; }
  /// Takes the sizes of the exchange's blocks. Collective.
  void resize(const Exchange& exchange);
  void copy();

 private:
  void free();

  MPI_Comm comm_;
  bool possible_ = false;
  MPI_Win window_ = MPI_WIN_NULL;
  struct Block {
    const char* from;
    std::size_t bytes;
  };
  std::vector<Block> blocks_;
  std::vector<char> recv_;
};

}  // namespace tapa::bench
