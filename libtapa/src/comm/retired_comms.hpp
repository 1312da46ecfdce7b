/// @file
/// Private communicators that are no longer needed.
#pragma once

#include <mpi.h>

namespace tapa {

/// Frees `comm` now; from inside MPI's progress engine, where MPI must not be asked for that, at the next
/// free_retired(). MPI_COMM_NULL is passed over.
void retire(MPI_Comm comm);

/// Frees what waits. Called by what may synchronise, and at the end of MPI.
void free_retired();

}  // namespace tapa
