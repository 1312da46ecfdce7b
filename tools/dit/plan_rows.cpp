#include "plan_rows.hpp"

#include <algorithm>

#include "schedule/explain.hpp"

namespace dit::tool {

PlanRows::PlanRows(const ModelConfig& config, const GenerateOptions& options, const MachineRates& rates,
                   int ranks_per_node, double progress_cost)
    : config_(config), options_(options), rates_(rates), ranks_per_node_(ranks_per_node) {
  predict_.progress_cost = progress_cost;
  mix_ = mix_of(*options.wire, static_cast<int>(config.network.layers), options.sampler.steps,
                options.dtype == at::kBFloat16 ? WireElement::bf16 : WireElement::fp32);
}

std::vector<PlanRow> PlanRows::rows(const std::vector<int>& counts) const {
  std::vector<PlanRow> rows;
  for (const int ranks : counts) {
    for (const bool exact : {true, false}) {
      if (!exact && nodes(ranks) == 1) continue;  // nothing is slow
      for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
        if (ranks == 1 && schedule != Schedule::flat) continue;
        rows.push_back(row(ranks, schedule, exact));
      }
    }
  }
  return rows;
}

PlanRow PlanRows::row(int ranks, Schedule schedule, bool exact) const {
  const GenerateOptions options = with(schedule, exact);
  const RunShape run = shape_of(config_.network, options, ranks);
  const UlyssesLayout layout = layout_of(run, options);  // refuses rank counts that the heads forbid
  PlanRow row{ranks, nodes(ranks), exact, schedule, {}, 0, 0};
  const WireShares all = exact ? WireShares{} : mix_.full;
  const StepGraph full = graph(run, options, all, false);
  row.step = predict(full, make_order(schedule, full), predict_);
  row.node_bytes = node_bytes(full, run, options, all);
  if (exact) return row;
  if (mix_.full_share < 1) {
    const StepGraph selective = graph(run, options, mix_.selective, true);
    row.step =
        mixed(row.step, predict(selective, make_order(schedule, selective), predict_), mix_.full_share);
    row.node_bytes = mix_.full_share * row.node_bytes +
                     (1 - mix_.full_share) * node_bytes(selective, run, options, mix_.selective);
  }
  for (int rank = 0; rank < layout.ranks(); ++rank)
    row.cache_bytes = std::max(row.cache_bytes, cache_of(config_.network, run, options, rank).total());
  return row;
}

std::string PlanRows::explained(const PlanRow& row) const {
  const GenerateOptions options = with(row.schedule, true);
  const StepGraph full = graph(shape_of(config_.network, options, row.ranks), options, {}, false);
  ExplainOptions how;
  how.predict = predict_;
  return explain(full, make_order(row.schedule, full), how);
}

GenerateOptions PlanRows::with(Schedule schedule, bool exact) const {
  GenerateOptions options = options_;
  options.schedule = schedule;
  if (exact) options.wire.reset();
  return options;
}

ForwardShape PlanRows::shape(const RunShape& run, const GenerateOptions& options,
                             const WireShares& shares) const {
  ForwardShape shape = forward_shape(config_.network, run, options, ranks_per_node_);
  shape.scatter_share = shares.scatter;
  shape.output_share = shares.output;
  return shape;
}

StepGraph PlanRows::graph(const RunShape& run, const GenerateOptions& options, const WireShares& shares,
                          bool selective) const {
  BlockGraphOptions block;
  block.units = run.units;
  block.layers = static_cast<int>(config_.network.layers);
  block.groups = options.head_groups;
  block.selective = selective;
  StepGraph graph = transformer_graph(block);
  estimate(graph, shape(run, options, shares), rates_);
  return graph;
}

double PlanRows::node_bytes(const StepGraph& graph, const RunShape& run, const GenerateOptions& options,
                            const WireShares& shares) const {
  double bytes = 0;
  for (const Step& step : graph.steps) {
    if (!is_exchange(step.role)) continue;
    bytes +=
        exchange_volume(step.role, shape(run, options, shares), rates_.two_level, step.group, graph.groups)
            .node_slow_bytes;
  }
  return bytes;
}

const PlanRow* fastest(const std::vector<PlanRow>& rows, bool exact, int ranks) {
  const PlanRow* best = nullptr;
  for (const PlanRow& row : rows) {
    if (row.exact != exact || (ranks != 0 && row.ranks != ranks)) continue;
    if (best == nullptr || row.step.seconds < best->step.seconds) best = &row;
  }
  return best;
}

}  // namespace dit::tool
