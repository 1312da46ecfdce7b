#include "predict/plan_rows.hpp"

#include "predict/choose_order.hpp"
#include "predict/explain.hpp"

namespace dit {

int PlanRows::nodes(int ranks) const {
  return (ranks + question_.ranks_per_node - 1) / question_.ranks_per_node;
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
  const PlannedRun run = question_.run(ranks, schedule);
  const StepMix& mix = question_.mix;
  PlanRow row{ranks, nodes(ranks), exact, schedule, {}, 0, 0};
  const WireShares all = exact ? WireShares{} : mix.full;
  const StepGraph full = graph(run, all, false);
  row.step = predict(full, make_order(schedule, full), question_.predict);
  row.node_bytes = node_bytes(full, run, all);
  if (exact) return row;
  if (mix.full_share < 1) {
    const StepGraph selective = graph(run, mix.selective, true);
    row.step = mixed(row.step, predict(selective, make_order(schedule, selective), question_.predict),
                     mix.full_share);
    row.node_bytes =
        mix.full_share * row.node_bytes + (1 - mix.full_share) * node_bytes(selective, run, mix.selective);
  }
  row.cache_bytes = run.cache_bytes;
  return row;
}

std::string PlanRows::explained(int ranks, Schedule schedule) const {
  const StepGraph full = graph(question_.run(ranks, schedule), {}, false);
  ExplainOptions how;
  how.predict = question_.predict;
  return explain(full, make_order(schedule, full), how);
}

ForwardShape PlanRows::shape(const PlannedRun& run, const WireShares& shares) const {
  ForwardShape shape = run.shape;
  shape.ranks_per_node = question_.ranks_per_node;
  shape.scatter_share = shares.scatter;
  shape.output_share = shares.output;
  return shape;
}

StepGraph PlanRows::graph(const PlannedRun& run, const WireShares& shares, bool selective) const {
  BlockGraphOptions block;
  block.units = run.units;
  block.layers = question_.layers;
  block.groups = question_.head_groups;
  block.selective = selective;
  StepGraph graph = transformer_graph(block);
  estimate(graph, shape(run, shares), question_.rates);
  return graph;
}

double PlanRows::node_bytes(const StepGraph& graph, const PlannedRun& run, const WireShares& shares) const {
  double bytes = 0;
  for (const Step& step : graph.steps) {
    if (!is_exchange(step.role)) continue;
    bytes +=
        exchange_volume(step.role, shape(run, shares), question_.rates.two_level, step.group, graph.groups)
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

}  // namespace dit
