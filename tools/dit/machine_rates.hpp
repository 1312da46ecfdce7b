/// @file
/// What this machine can do, measured: compute rates with the model's own code, link rates with the job's own
/// exchange.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/run_shape.hpp"
#include "job.hpp"
#include "schedule/model_cost.hpp"
#include "wire/coding_gain.hpp"

namespace dit::tool {

/// A forward pass of one unit for the cost model.
[[nodiscard]] ForwardShape forward_shape(const PixelDitConfig& network, const RunShape& run,
                                         const GenerateOptions& options, int ranks_per_node);

/// FLOP/s in matrix products and in attention, element-wise work included in both: from a forward pass on
/// this rank alone.
struct ComputeRates {
  double linear = 0;
  double attention = 0;
};
[[nodiscard]] ComputeRates measure_compute(const LoadedModel& model, const GenerateOptions& options);

/// Links of a job. `slow` is empty when all ranks are on one node, `fast` when no two are. Collective; the
/// same on all ranks.
struct MeasuredLinks {
  std::optional<LinkRates> fast;
  std::optional<LinkRates> slow;
  int ranks_per_node = 1;
};
[[nodiscard]] MeasuredLinks measure_links(const Member& member);

/// What a level's links take for a byte of one rank while all ranks send.
struct LevelSeconds {
  int level = 0;
  std::string name;
  double seconds = 0;
};
/// Of the levels between nodes that are between some ranks. Collective; the same on all ranks.
[[nodiscard]] std::vector<LevelSeconds> measure_levels(const Member& member, ExchangeContext& context);

/// Coding and decoding a byte of tensors that travel in these modes, on the slowest rank, all ranks at once.
/// Collective; the same on all ranks.
[[nodiscard]] double measure_coding(const Member& member, const std::vector<ModeShare>& modes,
                                    WireElement element, float momentum);

}  // namespace dit::tool
