/// @file
/// The edges of a communicator's topology, as one rank sees them: whom its neighbourhood collectives send to
/// and receive from.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

namespace tapa {

struct Edges {
  struct Peer {
    int rank = 0;
    int first = 0;   ///< of its blocks, in `blocks`
    int number = 0;  ///< of blocks
  };
  /// What is sent, or received.
  struct Side {
    std::vector<int> ranks;   ///< by block, some maybe MPI_PROC_NULL: such a block is left alone
    std::vector<Peer> peers;  ///< each rank once
    std::vector<int> blocks;  ///< peer by peer; those of one in the order in which both ends match them
    bool repeats = false;     ///< whether a peer has several
  };
  Side send;
  Side recv;
};

/// Those of `comm`, which is no intercommunicator; null: it has no topology. Where there are several edges
/// between two ranks, their blocks are matched as MPI itself matches them, in blocking or in nonblocking
/// calls. Local. Throws CallError.
[[nodiscard]] std::unique_ptr<const Edges> edges_of(MPI_Comm comm, bool nonblocking);

}  // namespace tapa
