/// Step graphs for tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "schedule/step_graph.hpp"

namespace dit::test {

/// Small shapes of all kinds.
inline std::vector<BlockGraphOptions> small_shapes() {
  std::vector<BlockGraphOptions> shapes;
  for (int units = 1; units <= 2; ++units) {
    for (int layers = 1; layers <= 3; ++layers) {
      for (int groups = 1; groups <= 3; ++groups) {
        for (const bool selective : {false, true}) {
          shapes.push_back({units, layers, groups, selective});
          std::vector<Block> blocks(static_cast<std::size_t>(layers));
          for (int layer = 0; layer < layers; layer += 2) {
            blocks[static_cast<std::size_t>(layer)] = {MlpPlace::beside, 1};
          }
          shapes.push_back({units, layers, groups, selective, blocks});
        }
      }
    }
  }
  return shapes;
}

inline std::string name(const BlockGraphOptions& shape) {
  return std::to_string(shape.units) + " units, " + std::to_string(shape.layers) + " layers, " +
         std::to_string(shape.groups) + " groups" + (shape.selective ? ", selective" : "") +
         (shape.blocks.empty() ? "" : ", MLP beside");
}

/// Small whole numbers, so that sums are exact; a third of the steps take no time.
inline StepGraph with_random_estimates(StepGraph graph, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (Step& step : graph.steps) step.seconds = random() % 3 == 0 ? 0 : static_cast<double>(random() % 16);
  return graph;
}

/// A forward pass in which a layer of one unit computes for `compute` and exchanges for `exchange` seconds,
/// in the shares of a usual transformer block.
inline StepGraph with_layer_times(StepGraph graph, double compute, double exchange) {
  const auto groups = static_cast<double>(graph.groups);
  for (Step& step : graph.steps) {
    switch (step.role) {
      case StepRole::value:
      case StepRole::query:
      case StepRole::key:
      case StepRole::finish:
        step.seconds = 0.1 * compute;
        break;
      case StepRole::attention:
        step.seconds = 0.2 * compute / groups;
        break;
      case StepRole::mlp:
        step.seconds = 0.4 * compute;
        break;
      case StepRole::mlp_in:
      case StepRole::mlp_out:
        step.seconds = 0.2 * compute;
        break;
      case StepRole::scatter_value:
      case StepRole::scatter_query:
      case StepRole::scatter_key:
      case StepRole::gather_output:
        step.seconds = 0.25 * exchange / groups;
        break;
      default:
        step.seconds = 0;
    }
  }
  return graph;
}

/// The step of a role in a graph with one unit and layer.
inline StepId find(const StepGraph& graph, StepRole role, int unit = 0, int layer = 0, int group = 0) {
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    const Step& step = graph.steps[id];
    if (step.role == role && step.unit == unit && step.layer == layer && step.group == group) {
      return static_cast<StepId>(id);
    }
  }
  return -1;
}

}  // namespace dit::test
