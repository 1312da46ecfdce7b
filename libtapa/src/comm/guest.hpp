/// @file
/// The library inside a program that knows nothing of it.
#pragma once

#include <mpi.h>

namespace tapa {

/// Whether the drop-in has loaded the library: then a communicator begins with MPI's all-to-all, and nothing
/// of ours may end the program. Set once, before the first call.
void become_guest();
[[nodiscard]] bool is_guest();

/// How long a set-up takes in this process: the last one, or what is expected of the first. Seconds.
[[nodiscard]] double setup_seconds();
void note_setup_seconds(double seconds);

/// MPI has taken so long for a blocking call on a communicator that is not set up.
void note_newcomer(MPI_Comm comm, double seconds);

}  // namespace tapa
