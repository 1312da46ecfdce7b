/// Host memory by MPI_Alltoallv.
#pragma once

#include "common/all_to_all.hpp"

namespace dit {

/// `comm` outlives it.
[[nodiscard]] std::unique_ptr<AllToAll> make_flat(MPI_Comm comm);

}  // namespace dit
