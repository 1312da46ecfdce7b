#include "schedule/step_graph.hpp"

#include <cmath>
#include <stdexcept>

namespace dit {
namespace {

void check_at_least_one(const char* name, int value) {
  if (value < 1) {
    throw std::invalid_argument(std::string(name) + " of a step graph is " + std::to_string(value) +
                                ": expected at least 1");
  }
}

/// Step ids are ints, and there are a few steps of each.
void check_size(const BlockGraphOptions& options) {
  constexpr int kMost = 1'000'000;
  if (options.layers > kMost / options.units || options.groups > kMost / options.units / options.layers) {
    throw std::invalid_argument("units * layers * groups of a step graph is " +
                                std::to_string(options.units) + " * " + std::to_string(options.layers) +
                                " * " + std::to_string(options.groups) + ": expected at most " +
                                std::to_string(kMost));
  }
}

/// Adds the steps of one unit, block by block.
class UnitBuilder {
 public:
  UnitBuilder(StepGraph& graph, int unit) : graph_(graph), unit_(unit) {}

  void build(bool selective) {
    StepId input = add(StepRole::prepare, 0, 0, {});
    for (int layer = 0; layer < graph_.layers; ++layer) input = block(layer, input, selective);
    add(StepRole::last, graph_.layers - 1, 0, {input});
  }

 private:
  StepId add(StepRole role, int layer, int group, std::vector<StepId> after) {
    graph_.steps.push_back({role, unit_, layer, group, std::move(after), 0, 0});
    return static_cast<StepId>(graph_.steps.size()) - 1;
  }

  StepId block(int layer, StepId input, bool selective) {
    const bool beside = graph_.block_of(layer).mlp == MlpPlace::beside;
    const StepId value = add(StepRole::value, layer, 0, {input});
    const StepId score = selective ? add(StepRole::score, layer, 0, {value}) : value;
    const StepId query = add(StepRole::query, layer, 0, {value});
    const StepId key = add(StepRole::key, layer, 0, {value});
    const StepId hidden = beside ? add(StepRole::mlp_in, layer, 0, {value}) : value;
    const auto active = [&](StepId tensor) {  // its rows that travel
      return selective ? std::vector{tensor, score} : std::vector{tensor};
    };
    std::vector<StepId> outputs;
    for (int group = 0; group < graph_.groups; ++group) {
      const StepId v = add(StepRole::scatter_value, layer, group, {score});
      const StepId q = add(StepRole::scatter_query, layer, group, active(query));
      const StepId k = add(StepRole::scatter_key, layer, group, active(key));
      const StepId attention = add(StepRole::attention, layer, group, {v, q, k});
      outputs.push_back(add(StepRole::gather_output, layer, group, {attention}));
    }
    if (beside) {
      outputs.push_back(add(StepRole::mlp_out, layer, 0, {hidden}));
      return add(StepRole::finish, layer, 0, std::move(outputs));
    }
    const StepId finish = add(StepRole::finish, layer, 0, std::move(outputs));
    return add(StepRole::mlp, layer, 0, {finish});
  }

  StepGraph& graph_;
  int unit_;
};

/// What is wrong with one step, or nothing.
std::string fault_of(const StepGraph& graph, StepId id) {
  const Step& step = graph.steps[static_cast<std::size_t>(id)];
  const auto outside = [](int value, int count) { return value < 0 || value >= count; };
  if (outside(step.unit, graph.units)) return "its unit is not one of " + std::to_string(graph.units);
  if (outside(step.layer, graph.layers)) return "its layer is not one of " + std::to_string(graph.layers);
  if (outside(step.group, graph.groups)) return "its group is not one of " + std::to_string(graph.groups);
  if (!std::isfinite(step.seconds) || step.seconds < 0) {
    return "its estimate is " + std::to_string(step.seconds) + " s, expected a time";
  }
  for (const StepId before : step.after) {
    if (outside(before, id)) {
      return "it comes after step " + std::to_string(before) + ", expected smaller ids only";
    }
  }
  return {};
}

}  // namespace

const char* to_string(StepRole role) {
  switch (role) {
    case StepRole::prepare:
      return "prepare";
    case StepRole::value:
      return "value";
    case StepRole::query:
      return "query";
    case StepRole::key:
      return "key";
    case StepRole::score:
      return "score";
    case StepRole::scatter_value:
      return "scatter_value";
    case StepRole::scatter_query:
      return "scatter_query";
    case StepRole::scatter_key:
      return "scatter_key";
    case StepRole::attention:
      return "attention";
    case StepRole::gather_output:
      return "gather_output";
    case StepRole::finish:
      return "finish";
    case StepRole::mlp:
      return "mlp";
    case StepRole::last:
      return "last";
    case StepRole::mlp_in:
      return "mlp_in";
    case StepRole::mlp_out:
      return "mlp_out";
  }
  return "unknown";
}

bool is_exchange(StepRole role) {
  return role == StepRole::scatter_value || role == StepRole::scatter_query ||
         role == StepRole::scatter_key || role == StepRole::gather_output;
}

StepGraph transformer_graph(const BlockGraphOptions& options) {
  check_at_least_one("units", options.units);
  check_at_least_one("layers", options.layers);
  check_at_least_one("groups", options.groups);
  check_size(options);
  const std::size_t blocks = options.blocks.size();
  if (blocks != 0 && blocks != static_cast<std::size_t>(options.layers)) {
    throw std::invalid_argument("blocks of a step graph are " + std::to_string(blocks) +
                                ": expected none or one for each of " + std::to_string(options.layers) +
                                " layers");
  }
  StepGraph graph;
  graph.units = options.units;
  graph.layers = options.layers;
  graph.groups = options.groups;
  graph.blocks = options.blocks;
  for (int unit = 0; unit < options.units; ++unit) UnitBuilder(graph, unit).build(options.selective);
  return graph;
}

std::string step_name(const Step& step) {
  std::string name;
  // Before the first block and after the last one there is no layer to speak of.
  if (step.role != StepRole::prepare && step.role != StepRole::last) {
    name = "layer " + std::to_string(step.layer) + " ";
  }
  name += "unit " + std::to_string(step.unit) + " " + to_string(step.role);
  if (step.role == StepRole::attention || is_exchange(step.role))
    name += " group " + std::to_string(step.group);
  return name;
}

std::string verify(const StepGraph& graph) {
  if (!graph.blocks.empty() && graph.blocks.size() != static_cast<std::size_t>(graph.layers)) {
    return std::to_string(graph.blocks.size()) + " blocks for " + std::to_string(graph.layers) + " layers";
  }
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    const std::string fault = fault_of(graph, static_cast<StepId>(id));
    if (!fault.empty())
      return "step " + std::to_string(id) + " (" + step_name(graph.steps[id]) + "): " + fault;
  }
  return {};
}

}  // namespace dit
