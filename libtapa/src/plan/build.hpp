/// @file
/// Turns routes into the plan of one rank. The only place where plans are made.
#pragma once

#include "plan/counts.hpp"
#include "plan/plan.hpp"
#include "plan/route.hpp"

namespace tapa {

/// The plan of `rank`. Blocks of zero bytes travel nowhere. A relayed block lies in scratch where its
/// outgoing message begins, so that relaying needs no copy of its own.
[[nodiscard]] RankPlan build_rank_plan(const Routes& routes, const Counts& counts, int rank);

}  // namespace tapa
