/// Predicted steps of schedules, policies and numbers of ranks: the lines of dit plan's table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/run_shape.hpp"
#include "machine_rates.hpp"
#include "step_mix.hpp"

namespace dit::tool {

struct PlanRow {
  int ranks = 1;
  int nodes = 1;
  bool exact = true;
  Schedule schedule = Schedule::flat;
  Prediction step;        ///< mean of a sampling step
  double node_bytes = 0;  ///< that the busiest node sends in a step
  std::uint64_t cache_bytes = 0;
};

/// Precondition: options.wire. All that is given must outlive this.
class PlanRows {
 public:
  /// `progress_cost`: share of the computation that an exchange beside it costs.
  PlanRows(const ModelConfig& config, const GenerateOptions& options, const MachineRates& rates,
           int ranks_per_node, double progress_cost);

  /// For each count exact rows and, where there are several nodes, rows of the policy: one for each schedule.
  /// Throws std::invalid_argument for a count that the heads forbid.
  [[nodiscard]] std::vector<PlanRow> rows(const std::vector<int>& counts) const;
  /// Time line of the full step.
  [[nodiscard]] std::string explained(const PlanRow& row) const;
  [[nodiscard]] const StepMix& mix() const { return mix_; }
  [[nodiscard]] int nodes(int ranks) const { return (ranks + ranks_per_node_ - 1) / ranks_per_node_; }

 private:
  [[nodiscard]] PlanRow row(int ranks, Schedule schedule, bool exact) const;
  [[nodiscard]] GenerateOptions with(Schedule schedule, bool exact) const;
  [[nodiscard]] ForwardShape shape(const RunShape& run, const GenerateOptions& options,
                                   const WireShares& shares) const;
  [[nodiscard]] StepGraph graph(const RunShape& run, const GenerateOptions& options, const WireShares& shares,
                                bool selective) const;
  [[nodiscard]] double node_bytes(const StepGraph& graph, const RunShape& run, const GenerateOptions& options,
                                  const WireShares& shares) const;

  const ModelConfig& config_;
  const GenerateOptions& options_;
  const MachineRates& rates_;
  int ranks_per_node_;
  PredictOptions predict_;
  StepMix mix_;
};

/// The fastest exact or other row; of one rank count when it is not 0. Null when there is none.
[[nodiscard]] const PlanRow* fastest(const std::vector<PlanRow>& rows, bool exact, int ranks);

}  // namespace dit::tool
