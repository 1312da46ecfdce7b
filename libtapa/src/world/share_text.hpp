/// @file
/// Text of rank 0 on all ranks.
#pragma once

#include <mpi.h>

#include <string>

namespace tapa {

/// Rank 0's `own`, on every rank of `comm`. Collective. Throws SetupError, on all ranks, when it exceeds 2
/// GiB; CallError when MPI fails.
[[nodiscard]] std::string share_text(std::string own, MPI_Comm comm);

}  // namespace tapa
