#include "engine/estimates.hpp"

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "engine/run_shape.hpp"
#include "exchange/local/local_ranks.hpp"
#include "small_model.hpp"

namespace dit {
namespace {

StepGraph graph_of(int layers, bool selective) {
  BlockGraphOptions options;
  options.layers = layers;
  options.selective = selective;
  return transformer_graph(options);
}

double seconds_of(const StepGraph& graph, StepRole role) {
  for (const Step& step : graph.steps) {
    if (step.role == role) return step.seconds;
  }
  return -1;
}

TEST(StepEstimates, TheLongestComputationAndTheShortestExchange) {
  LocalGroupOptions group;
  group.ranks = 3;
  run_local_ranks(group, [](ExchangeContext& context) {
    const StepGraph graph = graph_of(3, false);
    std::vector<double> seconds;
    for (const Step& step : graph.steps) {
      // The first layer is slow everywhere, and rank 2 is.
      seconds.push_back((step.role == StepRole::mlp ? 2.0 : 1.0) + (step.layer == 0 ? 50.0 : 0.0) +
                        (context.rank() == 2 ? 9.0 : 0.25 * context.rank()));
    }
    StepEstimates estimates;
    EXPECT_FALSE(estimates.cover(graph));
    estimates.add(graph, seconds, kFullTensors, &context);
    EXPECT_TRUE(estimates.cover(graph));
    EXPECT_FALSE(estimates.cover(graph_of(3, true)));
    StepGraph filled = graph;
    estimates.fill(filled, kFullTensors);
    EXPECT_EQ(seconds_of(filled, StepRole::mlp), 11.0);
    EXPECT_EQ(seconds_of(filled, StepRole::scatter_key), 1.0);
  });
}

TEST(StepEstimates, EqualBytesTakeEquallyLong) {
  StepGraph graph = graph_of(1, false);
  std::vector<double> seconds;
  for (Step& step : graph.steps) {
    seconds.push_back(step.role == StepRole::scatter_key ? 3.0 : 1.0);
    if (is_exchange(step.role)) step.slow_bytes = step.role == StepRole::gather_output ? 50 : 100;
  }
  StepEstimates estimates;
  estimates.add(graph, seconds, kFullTensors, nullptr);
  estimates.fill(graph, kFullTensors);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_value), 3.0) << "it found data waiting";
  EXPECT_EQ(seconds_of(graph, StepRole::gather_output), 1.5);
  EXPECT_EQ(seconds_of(graph, StepRole::mlp), 1.0);
}

TEST(StepEstimates, KindsOfBlocksTakeTheirOwnTimes) {
  StepGraph graph = transformer_graph({1, 3, 1, false, {{}, {MlpPlace::beside, 1}, {MlpPlace::beside, 1}}});
  std::vector<double> seconds;
  for (const Step& step : graph.steps) seconds.push_back(step.layer == 0 ? 8.0 : 2.0);
  StepEstimates estimates;
  estimates.add(graph, seconds, kFullTensors, nullptr);
  EXPECT_FALSE(estimates.cover(transformer_graph({1, 1, 1, false, {{MlpPlace::after, 2}}})));
  estimates.fill(graph, kFullTensors);
  for (const Step& step : graph.steps) {
    if (is_exchange(step.role)) continue;
    EXPECT_EQ(step.seconds, step.layer == 0 ? 8.0 : 2.0) << step_name(step);
  }
}

TEST(StepEstimates, WhatSendsLessTakesLessTime) {
  StepGraph graph = graph_of(1, true);
  const std::vector<double> all_equal(graph.steps.size(), 1.0);
  StepEstimates estimates;
  estimates.add(graph, all_equal, kFullTensors, nullptr);
  estimates.fill(graph, {0.5, 0.25, 0.125, 1});  // Q, K, V, output
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_query), 0.5);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_key), 0.25);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_value), 0.125);
  EXPECT_EQ(seconds_of(graph, StepRole::gather_output), 1.0);
  EXPECT_EQ(seconds_of(graph, StepRole::mlp), 1.0);
  estimates.add(graph, std::vector<double>(graph.steps.size(), 7.0), kFullTensors, nullptr);
  estimates.fill(graph, kFullTensors);
  EXPECT_EQ(seconds_of(graph, StepRole::value), 1.0) << "what is known stays";
}

TEST(StepEstimates, WhatWasMeasuredOfAPartIsScaledUp) {
  StepGraph graph = graph_of(1, false);
  StepEstimates estimates;
  estimates.add(graph, std::vector<double>(graph.steps.size(), 1.0), {0.5, 0.5, 0.5, 0.25}, nullptr);
  estimates.fill(graph, {0.125, 0.5, 1, 0.25});
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_query), 0.25);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_key), 1.0);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_value), 2.0);
  EXPECT_EQ(seconds_of(graph, StepRole::gather_output), 1.0);
  EXPECT_EQ(seconds_of(graph, StepRole::mlp), 1.0);
}

/// Of the seconds of a step's exchanges in one kind of steps those in another.
double ratio_of(const StepKind& a, const StepKind& b, StepRole role) {
  return seconds_of(a.graph, role) / seconds_of(b.graph, role);
}

TEST(MeasuredSteps, TakeWhatThePolicySends) {
  run_local_ranks(test::nodes(2, 1), [](ExchangeContext& context) {
    Engine engine(test::small_model(), &context);
    GenerateOptions options = test::small_image();
    options.sampler.steps = 4;
    WireRule bf16_later;
    bf16_later.steps = {1, -1};
    bf16_later.mode.format = WireFormat::bf16;
    WireRule no_output = bf16_later;
    no_output.tensors = {AttentionTensor::output};
    no_output.mode.skip = true;
    options.wire.emplace();
    options.wire->rules = {bf16_later, no_output};
    const std::vector<StepKind> kinds = engine.measure(options);
    ASSERT_EQ(kinds.size(), 2U);
    EXPECT_EQ(kinds[0].share, 0.25);
    EXPECT_EQ(kinds[1].share, 0.75);
    EXPECT_DOUBLE_EQ(ratio_of(kinds[1], kinds[0], StepRole::scatter_key), 0.5);
    EXPECT_EQ(ratio_of(kinds[1], kinds[0], StepRole::gather_output), 0);
    EXPECT_EQ(ratio_of(kinds[1], kinds[0], StepRole::mlp), 1);
  });
}

TEST(MeasuredSteps, OfAnotherPolicyAreOthers) {
  GenerateOptions exact = test::small_image();
  GenerateOptions coded = exact;
  coded.wire = wire_preset("fp8", coded.sampler.steps);
  EXPECT_NE(timing_text(exact), timing_text(coded));
  exact.seed = 7;
  EXPECT_EQ(timing_text(exact), timing_text(test::small_image()));
}

}  // namespace
}  // namespace dit
