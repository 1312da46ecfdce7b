/// @file
/// The library inside a program that knows nothing of it.
#pragma once

#include <mpi.h>

namespace tapa {

/// Whether the drop-in has loaded the library: then a communicator begins with MPI's all-to-all, and nothing
/// of ours may end the program. Set once, before the first call. `at_once`: on some rank of the job an option
/// asks for the library from the first call on.
void become_guest(bool at_once);
[[nodiscard]] bool is_guest();
[[nodiscard]] bool sets_up_at_once();

/// How long a set-up takes in this process: the last one, or what is expected of the first. Seconds.
[[nodiscard]] double setup_seconds();
void note_setup_seconds(double seconds);

/// MPI has taken so long for a blocking call on a communicator that is not set up.
void note_newcomer(MPI_Comm comm, double seconds);

}  // namespace tapa
