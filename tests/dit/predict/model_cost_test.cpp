#include "predict/model_cost.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "../message_of.hpp"
#include "../schedule/graphs.hpp"
#include "predict/published_models.hpp"

namespace dit {
namespace {

/// 100 tokens, 8 heads of 4 for Q, 4 for K and V, width 10, batch 2.
ForwardShape small_shape(int ranks, int ranks_per_node) {
  ForwardShape shape;
  shape.attention.batch = 2;
  shape.attention.image_tokens = 100;
  shape.attention.heads = 8;
  shape.attention.kv_heads = 4;
  shape.attention.head_dim = 4;
  shape.width = 10;
  shape.mlp_ratio = 3;
  shape.patch_elements = 7;
  shape.element_bytes = 2;
  shape.ranks = ranks;
  shape.ranks_per_node = ranks_per_node;
  return shape;
}

MachineRates round_rates() {
  MachineRates rates;
  rates.linear_flops = 1e6;
  rates.attention_flops = 1e5;
  rates.fast = {1e5, 1e-3};
  rates.slow = {1e4, 1e-2};
  return rates;
}

TEST(ModelCost, FlopOfOneRank) {
  const ForwardShape shape = small_shape(1, 1);
  EXPECT_EQ(step_flops(StepRole::prepare, shape), 2.0 * 200 * 7 * 10);
  EXPECT_EQ(step_flops(StepRole::value, shape), 2.0 * 200 * 10 * 16);
  EXPECT_EQ(step_flops(StepRole::query, shape), 2.0 * 200 * 10 * 32);
  EXPECT_EQ(step_flops(StepRole::key, shape), 2.0 * 200 * 10 * 16);
  EXPECT_EQ(step_flops(StepRole::attention, shape), 4.0 * 2 * 100 * 100 * 8 * 4);
  EXPECT_EQ(step_flops(StepRole::finish, shape), 2.0 * 200 * 32 * 10);
  EXPECT_EQ(step_flops(StepRole::mlp, shape), 4.0 * 200 * 10 * 30);
  EXPECT_EQ(step_flops(StepRole::last, shape), 2.0 * 200 * 10 * 7);
  EXPECT_EQ(step_flops(StepRole::score, shape), 0);
}

TEST(ModelCost, TheBusiestRankCounts) {
  // 3 ranks: 33, 33 and 34 tokens; 2, 3 and 3 heads.
  const ForwardShape shape = small_shape(3, 1);
  EXPECT_EQ(step_flops(StepRole::mlp, shape), 4.0 * 2 * 34 * 10 * 30);
  EXPECT_EQ(step_flops(StepRole::attention, shape), 4.0 * 2 * 100 * 100 * 3 * 4);
  // Two groups: of 3 heads 1 and 2, of 2 heads 1 and 1.
  EXPECT_EQ(step_flops(StepRole::attention, shape, 0, 2), 4.0 * 2 * 100 * 100 * 1 * 4);
  EXPECT_EQ(step_flops(StepRole::attention, shape, 1, 2), 4.0 * 2 * 100 * 100 * 2 * 4);
  // 20 ranks share 8 heads by twos and threes: a rank with one sharer attends for 50 queries.
  EXPECT_EQ(step_flops(StepRole::attention, small_shape(20, 1)), 4.0 * 2 * 50 * 100 * 4);
}

TEST(ModelCost, SecondsOfComputing) {
  MachineRates rates = round_rates();
  const ForwardShape shape = small_shape(1, 1);
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::mlp, shape, rates), 0.24);
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::attention, shape, rates), 25.6);
  // Norm, modulation, residual: 7 x 200 x 10 elements; activation: 2 x 200 x 30; 2 bytes each.
  rates.memory_bytes_per_second = 1e5;
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::mlp, shape, rates), 0.24 + 0.52);
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::score, shape, rates), 2 * 200 * 16 * 2 / 1e5);
  rates.step_seconds = 0.1;
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::mlp, shape, rates), 0.86);
  // Four ranks on two cores take twice as long as on four.
  const double free = step_seconds(StepRole::mlp, small_shape(4, 1), rates);
  rates.compute_slots = 2;
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::mlp, small_shape(4, 1), rates), 2 * free);
}

TEST(ModelCost, BytesOfEvenExchanges) {
  // 4 ranks on 2 nodes: 25 tokens and 2 query heads each; a row of a head has 4 elements of 2 bytes; batch 2.
  const ForwardShape shape = small_shape(4, 2);
  const double block = 2 * 25 * 2 * 4 * 2;  // of Q, from one rank to another
  const ExchangeVolume query = exchange_volume(StepRole::scatter_query, shape, false);
  EXPECT_EQ(query.rank_slow_bytes, 2 * block);
  EXPECT_EQ(query.node_slow_bytes, 4 * block);
  EXPECT_EQ(query.fast_bytes, block);
  EXPECT_EQ(query.slow_messages, 2);
  EXPECT_EQ(query.fast_messages, 1);
  // Half as many heads of K and V; the output goes the way of Q backwards.
  EXPECT_EQ(exchange_volume(StepRole::scatter_value, shape, false).node_slow_bytes, 2 * block);
  EXPECT_EQ(exchange_volume(StepRole::gather_output, shape, false).node_slow_bytes, 4 * block);
  // First to the neighbour what is for its lane: its own block and that of its peer in the other node.
  const ExchangeVolume staged = exchange_volume(StepRole::scatter_query, shape, true);
  EXPECT_EQ(staged.node_slow_bytes, 4 * block);
  EXPECT_EQ(staged.fast_bytes, 2 * block);
  EXPECT_EQ(staged.slow_messages, 1);
  EXPECT_EQ(staged.fast_messages, 1);
}

TEST(ModelCost, BytesOfUnevenExchanges) {
  // 3 ranks, 2 to a node: tokens 33, 33, 34; query heads 2, 3, 3.
  const ForwardShape shape = small_shape(3, 2);
  const double element = 2 * 4 * 2;
  const ExchangeVolume query = exchange_volume(StepRole::scatter_query, shape, false);
  EXPECT_EQ(query.rank_slow_bytes, 34 * 5 * element);  // the lonely rank to both others
  EXPECT_EQ(query.node_slow_bytes, 66 * 3 * element);  // the full node to it
  EXPECT_EQ(query.fast_bytes, 33 * 3 * element);       // to the one with 3 heads
  const ExchangeVolume output = exchange_volume(StepRole::gather_output, shape, false);
  EXPECT_EQ(output.rank_slow_bytes, 66 * 3 * element);  // of the lonely rank's heads
  EXPECT_EQ(output.node_slow_bytes, 66 * 3 * element);
}

TEST(ModelCost, MeanOfUnevenBlocks) {
  // 100 rows over 3 ranks, 8 heads over 3: all elements, and each pair's share of them.
  const ForwardShape shape = small_shape(3, 2);
  const double element = 2 * 4 * 2;
  EXPECT_DOUBLE_EQ(mean_block_bytes(StepRole::scatter_query, shape), 100 * 8 * element / 9);
  EXPECT_DOUBLE_EQ(mean_block_bytes(StepRole::gather_output, shape), 100 * 8 * element / 9);
  EXPECT_THROW(static_cast<void>(mean_block_bytes(StepRole::mlp, shape)), std::invalid_argument);
}

TEST(ModelCost, OnlyActiveRowsLeaveTheNode) {
  ForwardShape shape = small_shape(4, 2);
  const ExchangeVolume full = exchange_volume(StepRole::scatter_value, shape, false);
  shape.scatter_share = 0.25;
  const ExchangeVolume part = exchange_volume(StepRole::scatter_value, shape, false);
  EXPECT_EQ(part.node_slow_bytes, full.node_slow_bytes / 4);
  EXPECT_EQ(part.rank_slow_bytes, full.rank_slow_bytes / 4);
  EXPECT_EQ(part.fast_bytes, full.fast_bytes);
  shape.scatter_share = 1;
  const double output = exchange_volume(StepRole::gather_output, shape, false).node_slow_bytes;
  shape.scatter_share = 0.25;
  EXPECT_EQ(exchange_volume(StepRole::gather_output, shape, false).node_slow_bytes, output);
}

TEST(ModelCost, SecondsOfExchanges) {
  const ForwardShape shape = small_shape(4, 2);
  MachineRates rates = round_rates();
  // Node: 3200 bytes at 1e4, two messages of 10 ms; beside it 800 bytes at 1e5.
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::scatter_query, shape, rates), 0.32 + 0.02);
  rates.two_level = true;
  EXPECT_DOUBLE_EQ(step_seconds(StepRole::scatter_query, shape, rates), 0.32 + 0.01 + 0.016 + 0.001);
  // One rank sends nothing, and needs no links.
  rates.fast = rates.slow = {};
  EXPECT_EQ(step_seconds(StepRole::scatter_query, small_shape(1, 4), rates), 0);
}

/// The layout itself says how many elements a rank sends; the formulas must agree while no head is shared.
TEST(ModelCost, AgreesWithTheLayout) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (const int per_node : {1, 2, 3}) {
      const ForwardShape shape = small_shape(ranks, per_node);
      const UlyssesLayout layout(shape.attention, ranks);
      for (int group = 0; group < 2; ++group) {
        double most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const ExchangeLayout exchange = layout.scatter_heads(AttentionTensor::query, rank, group, 2);
          double bytes = 0;
          for (int peer = 0; peer < ranks; ++peer) {
            const bool beyond = peer / per_node != rank / per_node;
            if (beyond)
              bytes += 2.0 * static_cast<double>(exchange.send[static_cast<std::size_t>(peer)].elements());
          }
          most = std::max(most, bytes);
        }
        EXPECT_EQ(exchange_volume(StepRole::scatter_query, shape, false, group, 2).rank_slow_bytes, most)
            << ranks << " ranks, " << per_node << " to a node, group " << group;
      }
    }
  }
}

TEST(ModelCost, EstimatesAGraph) {
  StepGraph graph = transformer_graph({2, 3, 2, true});
  const ForwardShape shape = small_shape(4, 2);
  estimate(graph, shape, round_rates());
  EXPECT_EQ(verify(graph), "");
  for (const Step& step : graph.steps) {
    EXPECT_EQ(step.seconds, step_seconds(step.role, shape, round_rates(), step.group, 2)) << step_name(step);
    const double bytes =
        is_exchange(step.role) ? exchange_volume(step.role, shape, false, step.group, 2).rank_slow_bytes : 0;
    EXPECT_EQ(static_cast<double>(step.slow_bytes), bytes) << step_name(step);
  }
}

TEST(PublishedModels, FluxEndsInSingleStreams) {
  const std::vector<Block> blocks = blocks_of(published_model("flux1-dev"));
  ASSERT_EQ(blocks.size(), 57U);
  EXPECT_EQ(blocks[18], Block{});
  EXPECT_EQ(blocks[19], (Block{MlpPlace::beside, 1}));
  EXPECT_EQ(blocks[56], (Block{MlpPlace::beside, 1}));
  for (const Block& block : blocks_of(published_model("qwen-image"))) EXPECT_EQ(block, Block{});
}

TEST(ModelCost, AnMlpBesideAttentionIsTheSameWork) {
  const ForwardShape shape = small_shape(4, 2);
  const auto flops = [&](StepRole role) { return step_flops(role, shape); };
  EXPECT_EQ(flops(StepRole::mlp_in) + flops(StepRole::mlp_out), flops(StepRole::mlp));
  StepGraph graph = transformer_graph({1, 1, 1, false, {{MlpPlace::beside, 0}}});
  estimate(graph, shape, round_rates());
  for (const Step& step : graph.steps) EXPECT_GT(step.seconds, 0) << step_name(step);
}

template <class Change>
std::string refusal(Change change) {
  StepGraph graph = transformer_graph({});
  ForwardShape shape = small_shape(4, 2);
  MachineRates rates = round_rates();
  change(shape, rates);
  return misuse_of([&] { estimate(graph, shape, rates); });
}

TEST(ModelCost, RefusesWhatMakesNoSense) {
  using Shape = ForwardShape;
  using Rates = MachineRates;
  EXPECT_EQ(refusal([](Shape&, Rates&) {}), nothing_thrown);
  EXPECT_EQ(refusal([](Shape& shape, Rates&) { shape.width = 0; }), "width = 0: expected at least 1");
  EXPECT_EQ(refusal([](Shape& shape, Rates&) { shape.ranks = 0; }), "ranks = 0: expected at least 1");
  EXPECT_EQ(refusal([](Shape& shape, Rates&) { shape.scatter_share = 2; }),
            "scatter_share = 2.000000: expected a fraction between 0 and 1");
  EXPECT_EQ(refusal([](Shape&, Rates& rates) { rates.linear_flops = 0; }),
            "linear_flops = 0.000000: expected more than 0");
  EXPECT_EQ(refusal([](Shape&, Rates& rates) { rates.slow.bytes_per_second = 0; }),
            "slow.bytes_per_second = 0.000000: expected more than 0");
  EXPECT_EQ(refusal([](Shape& shape, Rates& rates) {
              shape.ranks_per_node = 4;
              rates.slow.bytes_per_second = 0;
            }),
            nothing_thrown);
  EXPECT_EQ(refusal([](Shape&, Rates& rates) { rates.step_seconds = -1; }),
            "step_seconds = -1.000000: expected 0 or more");
  EXPECT_THROW((void)step_flops(StepRole::mlp, ForwardShape{}), std::invalid_argument);
  EXPECT_THROW((void)exchange_volume(StepRole::mlp, small_shape(2, 1), false), std::invalid_argument);
}

}  // namespace
}  // namespace dit
