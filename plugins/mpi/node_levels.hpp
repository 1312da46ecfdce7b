/// The levels that MPI itself knows: ranks that share memory, and all.
#pragma once

#include "common/all_to_all.hpp"

namespace dit {

/// "node" and "world". Collective.
[[nodiscard]] Levels node_levels(MPI_Comm comm);

}  // namespace dit
