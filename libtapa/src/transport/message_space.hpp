/// @file
/// What messages of one communicator have of the communicator and the tags that all of them share.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>

namespace tapa {

/// Everything is borrowed.
struct MessageSpace {
  MPI_Comm comm = MPI_COMM_NULL;  ///< of the world's ranks, with MPI_ERRORS_RETURN
  std::span<const int> in_world;  ///< by rank of the communicator: its rank in `comm`
  std::span<const int> on_node;   ///< the same: its number on this rank's node, or -1 on another
  int first_tag = 0;              ///< tags first_tag .. first_tag + tags - 1 are its own
  int tags = 0;

  [[nodiscard]] int rank_of(int peer) const { return in_world[static_cast<std::size_t>(peer)]; }
  /// -1: its messages go through MPI.
  [[nodiscard]] int number_of(int peer) const { return on_node[static_cast<std::size_t>(peer)]; }
};

}  // namespace tapa
