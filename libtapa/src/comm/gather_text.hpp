/// @file
/// Text of all ranks in one place.
#pragma once

#include <mpi.h>

#include <string>

namespace tapa {

/// Rank 0: the texts of all ranks of `comm`, in their order; "" elsewhere. Collective. Throws CallError.
[[nodiscard]] std::string gather_text(const std::string& own, MPI_Comm comm);

}  // namespace tapa
