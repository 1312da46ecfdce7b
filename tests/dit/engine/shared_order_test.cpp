#include "engine/shared_order.hpp"

#include <gtest/gtest.h>

#include "exchange/local/local_ranks.hpp"
#include "predict/choose_order.hpp"

namespace dit {
namespace {

TEST(SharedOrder, IsThatOfRankZero) {
  LocalGroupOptions group;
  group.ranks = 3;
  BlockGraphOptions options;
  options.units = 2;
  options.layers = 3;
  options.selective = true;
  run_local_ranks(group, [&](ExchangeContext& context) {
    StepGraph graph = transformer_graph(options);
    for (Step& step : graph.steps) {
      step.seconds = 0.001 * (step.layer + 1);
    }
    const Order expected = make_order(Schedule::pipelined, graph);
    if (context.rank() != 0) {
      graph.steps[4].seconds = 7.0;  // what another rank would make of its own numbers does not count
    }
    EXPECT_EQ(make_shared_order(Schedule::pipelined, graph, &context), expected);
    EXPECT_EQ(make_shared_order(Schedule::flat, graph, &context), flat_order(graph));
    EXPECT_EQ(make_shared_order(Schedule::flat, graph, nullptr), flat_order(graph));
  });
}

}  // namespace
}  // namespace dit
