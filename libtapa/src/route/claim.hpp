/// @file
/// Blocking calls that can begin at once: ranks that share memory, no earlier call that has not begun,
/// nothing to be agreed. They need no place in the order of calls, whose bookkeeping would cost as much as a
/// short exchange.
#pragma once

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// The route of a checked call on host memory: `memory` with its buffers claimed, `mpi`, or else `plan`, for
/// which nothing was done.
[[nodiscard]] Route claim(const Arguments& arguments, CommState& state);

/// The same where the blocks are known to be equal.
[[nodiscard]] Route claim_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks);

}  // namespace tapa
