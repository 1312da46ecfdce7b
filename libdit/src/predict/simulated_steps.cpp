#include "predict/simulated_steps.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "predict/choose_order.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

double share_of(const Way& way, StepRole role) {
  return role == StepRole::gather_output ? way.output_share : way.scatter_share;
}

std::size_t block(StepRole role, const ForwardShape& shape, double share) {
  return static_cast<std::size_t>(std::max(1.0, std::round(mean_block_bytes(role, shape) * share)));
}

}  // namespace

// fp8: a byte for two; each end reads what the other one writes. int4 residuals: a quarter and scales, 1/2.92
// of 16 bits with everything counted; each end also reads and writes what the receiver has.
const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"flat", false, Schedule::flat},
      {"+TAPA", true, Schedule::flat},
      {"+V-First", true, Schedule::v_first},
      {"pipelined", true, Schedule::pipelined},
      {"V-Major", true, Schedule::v_first, true},
      {"fp8 on slow links", true, Schedule::v_first, false, 0.5, 0.5, 1.5},
      {"int4 residuals on slow links", true, Schedule::v_first, false, 0.342, 0.342, 3.342},
  };
  return all;
}

SimulatedSteps::SimulatedSteps(const SimulatedImage& image, const PublishedModel& model,
                               SimulatedMachine& machine, const MachineRates& rates)
    : image_(image),
      model_(model),
      machine_(machine),
      rates_(rates),
      mix_(mix_of(wire_policy_of(VMajorPolicy{}, image.steps), 1, image.steps, WireElement::bf16)) {
  if (image.pixels < 1 || image.pixels % model.token_pixels != 0) {
    throw std::invalid_argument("size is " + std::to_string(image.pixels) + ": expected a multiple of " +
                                std::to_string(model.token_pixels));
  }
}

std::vector<SimulatedRow> SimulatedSteps::rows(int nodes) {
  const ForwardShape shape = shape_of(nodes * machine_.ranks_per_node());
  std::vector<std::size_t> whole, all;
  for (const StepRole role : {StepRole::scatter_value, StepRole::scatter_query, StepRole::gather_output}) {
    for (const Way& way : ways()) all.push_back(block(role, shape, share_of(way, role)));
    all.push_back(block(role, shape, role == StepRole::gather_output ? 1 : mix_.selective.scatter));
    whole.push_back(block(role, shape, 1));
  }
  machine_.simulate(nodes, whole, true);
  machine_.simulate(nodes, all, false);
  if (nodes > 1) machine_.simulate(1, all, false);
  std::vector<SimulatedRow> rows;
  for (const Way& way : ways()) {
    const bool slow_only = way.v_major || way.scatter_share < 1;
    if (nodes == 1 && slow_only) continue;  // nothing is slow
    SimulatedRow row{nodes, shape.ranks, &way, predicted(way, shape, nodes, false), 1};
    if (way.v_major) {
      row.step = mixed(row.step, predicted(way, shape, nodes, true), mix_.full_share);
    }
    rows.push_back(row);
    rows.back().ratio_to_flat = rows.front().step.seconds / row.step.seconds;
  }
  return rows;
}

ForwardShape SimulatedSteps::shape_of(int ranks) const {
  const std::int64_t side = image_.pixels / model_.token_pixels;
  ForwardShape shape;
  shape.attention.batch = image_.batch;
  shape.attention.text_tokens = model_.text_tokens;
  shape.attention.image_tokens = side * side;
  shape.attention.heads = shape.attention.kv_heads = model_.heads;
  shape.attention.head_dim = model_.head_dim;
  shape.width = model_.heads * model_.head_dim;
  shape.patch_elements = 64;
  shape.element_bytes = 2;
  shape.ranks = ranks;
  shape.ranks_per_node = machine_.ranks_per_node();
  return shape;
}

/// Blocks of which only a share crosses nodes, while all of it travels within them: the exchange of the
/// share, and what the rest takes on one node.
double SimulatedSteps::exchange_seconds(StepRole role, const ForwardShape& shape, int nodes, bool tapa,
                                        double share) const {
  const auto seconds = [&](int on, double part) {
    const SimulatedExchange exchange = machine_.exchange(on, block(role, shape, part));
    return tapa ? exchange.tapa : exchange.flat;
  };
  if (share == 1) return seconds(nodes, 1);
  return seconds(nodes, share) + std::max(0.0, seconds(1, 1) - seconds(1, share));
}

/// What coding and decoding one exchange's blocks for other nodes takes, on top of the exchange.
double SimulatedSteps::codec_seconds(const Way& way, StepRole role, const ForwardShape& shape) const {
  if (way.codec_bytes <= 0 || rates_.memory_bytes_per_second <= 0) return 0;
  const double remote = shape.ranks - shape.ranks_per_node;
  return 2 * remote * mean_block_bytes(role, shape) * way.codec_bytes / rates_.memory_bytes_per_second;
}

Prediction SimulatedSteps::predicted(const Way& way, const ForwardShape& shape, int nodes,
                                     bool selective) const {
  BlockGraphOptions block;
  block.units = model_.branches;
  block.layers = model_.layers;
  block.blocks = blocks_of(model_);
  block.selective = selective;
  StepGraph graph = transformer_graph(block);
  estimate(graph, shape, rates_);
  std::map<StepRole, double> seconds;
  for (Step& step : graph.steps) {
    if (!is_exchange(step.role)) continue;
    if (!seconds.contains(step.role)) {
      const StepRole kind = step.role == StepRole::scatter_key ? StepRole::scatter_value : step.role;
      const bool rows_stay = selective && step.role != StepRole::gather_output;
      seconds[step.role] = exchange_seconds(kind, shape, nodes, way.tapa,
                                            rows_stay ? mix_.selective.scatter : share_of(way, step.role)) +
                           codec_seconds(way, kind, shape);
    }
    step.seconds = seconds[step.role];
  }
  return predict(graph, make_order(way.schedule, graph));
}

}  // namespace dit
