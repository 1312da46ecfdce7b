/// @file
/// Whether MPI's world model runs: MPI_COMM_WORLD and MPI_COMM_SELF may not be touched where a program only
/// uses sessions (MPI 4), before MPI_Init, and after MPI_Finalize.
#pragma once

#include <mpi.h>

#include <vector>

namespace tapa {

/// Whether MPI_COMM_WORLD and MPI_COMM_SELF can be used now.
[[nodiscard]] bool world_runs();

/// Whether MPI_Init was called. Cheap once it was.
[[nodiscard]] bool world_began();

/// MPI_Finalize has begun and the library has released what it kept. The program may still make calls, from
/// what it has attached to MPI_COMM_SELF.
void end_world();
[[nodiscard]] bool world_ends();

/// How many ranks an intracommunicator has, and which one this is. Local. Throw CallError.
[[nodiscard]] int size_of(MPI_Comm comm);
[[nodiscard]] int rank_in(MPI_Comm comm);

/// The largest tag of messages. Local. Throws CallError.
[[nodiscard]] int largest_tag();

/// The ranks of `of` that those of the intracommunicator `comm` are; MPI_UNDEFINED for others. Local. Throws
/// CallError.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm of, MPI_Comm comm);

/// The ranks of MPI_COMM_WORLD that those of an intracommunicator are; MPI_UNDEFINED for processes of other
/// jobs. Local. Throws CallError.
[[nodiscard]] std::vector<int> ranks_in_world(MPI_Comm comm);

/// Whether all its ranks are of this MPI_COMM_WORLD, not of another job's. Local, and alike on all ranks of
/// this world. Throws CallError.
[[nodiscard]] bool is_of_this_world(MPI_Comm comm);

}  // namespace tapa
