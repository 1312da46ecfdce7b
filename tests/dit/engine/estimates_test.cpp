#include "engine/estimates.hpp"

#include <gtest/gtest.h>

#include "exchange/local.hpp"

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
    estimates.add(graph, seconds, &context);
    EXPECT_TRUE(estimates.cover(graph));
    EXPECT_FALSE(estimates.cover(graph_of(3, true)));
    StepGraph filled = graph;
    estimates.fill(filled, 1.0);
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
  estimates.add(graph, seconds, nullptr);
  estimates.fill(graph, 1.0);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_value), 3.0) << "it found data waiting";
  EXPECT_EQ(seconds_of(graph, StepRole::gather_output), 1.5);
  EXPECT_EQ(seconds_of(graph, StepRole::mlp), 1.0);
}

TEST(StepEstimates, FewerRowsTakeLessTime) {
  StepGraph graph = graph_of(1, true);
  StepEstimates estimates;
  estimates.add(graph, std::vector<double>(graph.steps.size(), 1.0), nullptr);
  estimates.fill(graph, 0.125);
  EXPECT_EQ(seconds_of(graph, StepRole::scatter_value), 0.125);
  EXPECT_EQ(seconds_of(graph, StepRole::gather_output), 1.0);
  estimates.add(graph, std::vector<double>(graph.steps.size(), 7.0), nullptr);
  estimates.fill(graph, 1.0);
  EXPECT_EQ(seconds_of(graph, StepRole::value), 1.0) << "what is known stays";
}

}  // namespace
}  // namespace dit
