/// @file
/// Where a process is, as far as what it finds depends on it.
#pragma once

#include "autotune/learnt.hpp"
#include "world/options.hpp"

namespace tapa {

/// Versions of libtapa and MPI, processor, settings of both, ranks of the job. MPI_Init was called.
[[nodiscard]] LearntWhere learnt_where(const Options& options);

}  // namespace tapa
