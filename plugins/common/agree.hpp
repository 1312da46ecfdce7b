/// What is wrong on one rank is known to all, so that none waits for it.
#pragma once

#include <mpi.h>

#include <functional>

#include "common/mpi_error.hpp"

namespace dit {

/// Runs `step` on all ranks of `comm`. When it throws on some, all throw: those with their own words, the
/// others with those of the first rank that has some. Collective.
void together(MPI_Comm comm, const std::function<void()>& step);

}  // namespace dit
