/// @file
/// Private communicators that are no longer needed.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/mean_block.hpp"

namespace tapa {

/// Frees `comm` now. Later, in free_retired(), from inside the progress engine, perhaps deep inside MPI,
/// which must not be asked for that there, and while `sum` (may be null) is under way on it: to wait for
/// other ranks inside a wait of MPI is not possible in every thread. MPI_COMM_NULL is passed over.
void retire(MPI_Comm comm, std::unique_ptr<MeanBlock::Sum> sum);

/// Frees what can be freed. Called by what may synchronise, and at the end of MPI: then with `wait`, for all.
void free_retired(bool wait = false);

}  // namespace tapa
