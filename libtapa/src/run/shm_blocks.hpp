/// @file
/// The blocks of a call as a buffers wants them. Those that are not in one piece are packed straight into
/// shared memory and unpacked straight out of it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "run/arguments.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

/// Reusable; its memory grows only.
class ShmBlocks final : public BlockPacker {
 public:
  /// `exchange` is used until the all-to-all ends, and `comm` for packing.
  void describe(const Exchange& exchange, MPI_Comm comm);

  std::vector<ShmBlock> send;
  std::vector<ShmBlock> recv;

  void gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) override;
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override;
  std::byte* room(std::size_t member, bool sent) override;

 private:
  const Exchange* exchange_ = nullptr;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::vector<std::byte>> rooms_;  // of blocks that are packed and travel in pieces
};

}  // namespace tapa
