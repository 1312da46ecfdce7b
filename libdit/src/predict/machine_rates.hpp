/// What a machine can do, measured: compute rates from a forward pass, link rates with an exchange, coding
/// with the codecs themselves. What is collective gives the same on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "predict/coding_gain.hpp"
#include "predict/model_cost.hpp"

namespace dit {

/// FLOP/s in matrix products and in attention, element-wise work included in both.
struct ComputeRates {
  double linear = 0;
  double attention = 0;
};
/// `measured`: the graph of one unit's forward pass with what its steps took.
[[nodiscard]] ComputeRates compute_rates(const StepGraph& measured, const ForwardShape& shape);

/// Links of a job. `slow` is empty when all ranks are on one node, `fast` when no two are.
struct MeasuredLinks {
  std::optional<LinkRates> fast;
  std::optional<LinkRates> slow;
  int ranks_per_node = 1;
};
/// Collective; null: one rank, which has no links.
[[nodiscard]] MeasuredLinks measure_links(ExchangeContext* context);

/// What a level's links take for a byte of one rank while all ranks send.
struct LevelSeconds {
  int level = 0;
  std::string name;
  double seconds = 0;
};
/// Of the levels between nodes that are between some ranks. Collective.
[[nodiscard]] std::vector<LevelSeconds> measure_levels(ExchangeContext& context);

/// Coding and decoding a byte of tensors that travel in these modes, on the slowest rank, all ranks at once.
/// Collective; null: one rank.
[[nodiscard]] double measure_coding(ExchangeContext* context, const std::vector<ModeShare>& modes,
                                    WireElement element, float momentum);

}  // namespace dit
