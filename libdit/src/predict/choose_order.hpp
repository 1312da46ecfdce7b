/// Which schedule to use, and which order `pipelined` is: what a replay of the estimates says is fastest.
/// Pure and deterministic: the same on all ranks that have the same estimates.
#pragma once

#include <vector>

#include "predict/replay.hpp"
#include "schedule/order.hpp"

namespace dit {

/// Of interleaved_order's ways and v_first_order the one with the best prediction, also for exchanges that
/// take twice or half as long as estimated; never predicted worse than v_first_order. Without any estimates
/// interleaved_order as it is.
[[nodiscard]] Order pipelined_order(const StepGraph& graph);
[[nodiscard]] Order make_order(Schedule schedule, const StepGraph& graph);

/// Steps of a run that take equally long: their graph with estimates, and what share of the steps they are.
struct StepKind {
  StepGraph graph;
  double share = 1;
};
struct ChosenSchedule {
  Schedule schedule = Schedule::flat;
  double seconds = 0;  ///< predicted, the mean of a step
};
/// The schedule with the best prediction; on equal ones the simpler schedule. At least one kind.
[[nodiscard]] ChosenSchedule best_schedule(const std::vector<StepKind>& kinds,
                                           const PredictOptions& options = {});

}  // namespace dit
