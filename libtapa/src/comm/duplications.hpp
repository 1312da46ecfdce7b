/// @file
/// MPI_Comm_idup calls of a program, which MPI may still carry out in any later call. MPI makes one
/// communicator after the other: one that the library makes meanwhile may wait for a duplication that another
/// rank begins only later, perhaps for ever.
#pragma once

#include <mpi.h>

namespace tapa {

/// One is begun now. Thread-safe, as the other two.
void duplication_begins();
/// MPI has begun it: `made` will be the communicator; null: MPI has refused, or needs no other rank for it.
void duplication_began(const MPI_Comm* made);

/// The program uses a communicator: if that is one that was made so, it is complete. Cheap when none is open.
void note_in_use(MPI_Comm comm);

/// Whether a duplication may be under way in this process. When it ends is not seen: it counts until what it
/// made is used.
[[nodiscard]] bool may_be_duplicating();

}  // namespace tapa
