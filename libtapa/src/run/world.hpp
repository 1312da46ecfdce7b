/// @file
/// Whether MPI's world model runs: MPI_COMM_WORLD and MPI_COMM_SELF may not be touched where a program only
/// uses sessions (MPI 4), before MPI_Init, and after MPI_Finalize.
#pragma once

namespace tapa {

/// Whether MPI_COMM_WORLD and MPI_COMM_SELF can be used now.
[[nodiscard]] bool world_runs();

/// Whether MPI_Init was called. Cheap once it was.
[[nodiscard]] bool world_began();

/// MPI_Finalize has begun and the library has released what it kept. The program may still make calls, from
/// what it has attached to MPI_COMM_SELF.
void end_world();
[[nodiscard]] bool world_ends();

}  // namespace tapa
