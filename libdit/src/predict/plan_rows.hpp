/// Predicted steps of schedules, policies and numbers of ranks: which to choose.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "predict/model_cost.hpp"
#include "predict/replay.hpp"
#include "predict/step_mix.hpp"

namespace dit {

/// A run on some number of ranks.
struct PlannedRun {
  ForwardShape shape;  ///< of one unit; ranks a node and shares are filled in
  int units = 1;
  std::uint64_t cache_bytes = 0;  ///< that the policy keeps on the rank which keeps most
};

struct PlanQuestion {
  /// The run on so many ranks with this schedule; throws std::invalid_argument for a count that it forbids.
  std::function<PlannedRun(int ranks, Schedule schedule)> run;
  int layers = 1;
  int head_groups = 1;
  StepMix mix;  ///< the policy's
  MachineRates rates;
  int ranks_per_node = 1;
  PredictOptions predict;
};

struct PlanRow {
  int ranks = 1;
  int nodes = 1;
  bool exact = true;  ///< else the policy's
  Schedule schedule = Schedule::flat;
  Prediction step;        ///< mean of a sampling step
  double node_bytes = 0;  ///< that the busiest node sends in a step
  std::uint64_t cache_bytes = 0;
};

class PlanRows {
 public:
  explicit PlanRows(PlanQuestion question) : question_(std::move(question)) {}

  /// For each count exact rows and, where there are several nodes, rows of the policy: one for each schedule.
  [[nodiscard]] std::vector<PlanRow> rows(const std::vector<int>& counts) const;
  /// Time line of the full step on so many ranks.
  [[nodiscard]] std::string explained(int ranks, Schedule schedule) const;
  [[nodiscard]] int nodes(int ranks) const;

 private:
  [[nodiscard]] PlanRow row(int ranks, Schedule schedule, bool exact) const;
  [[nodiscard]] ForwardShape shape(const PlannedRun& run, const WireShares& shares) const;
  [[nodiscard]] StepGraph graph(const PlannedRun& run, const WireShares& shares, bool selective) const;
  [[nodiscard]] double node_bytes(const StepGraph& graph, const PlannedRun& run,
                                  const WireShares& shares) const;

  PlanQuestion question_;
};

/// The fastest exact or other row; of one rank count when it is not 0. Null when there is none.
[[nodiscard]] const PlanRow* fastest(const std::vector<PlanRow>& rows, bool exact, int ranks);

}  // namespace dit
