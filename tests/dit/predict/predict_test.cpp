#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "../message_of.hpp"
#include "../schedule/graphs.hpp"
#include "predict/choose_order.hpp"

namespace dit {
namespace {

using Kind = Action::Kind;

double seconds(const StepGraph& graph, const Order& order, const PredictOptions& options = {}) {
  return predict(graph, order, options).seconds;
}

/// Computing 10 s, then an exchange of 6 s that one more step of 4 s does not need and a last one of 1 s
/// does.
StepGraph small_graph() {
  StepGraph graph;
  graph.layers = 1;
  graph.steps = {{StepRole::value, 0, 0, 0, {}, 10, 0},
                 {StepRole::scatter_value, 0, 0, 0, {0}, 6, 0},
                 {StepRole::query, 0, 0, 0, {0}, 4, 0},
                 {StepRole::attention, 0, 0, 0, {1, 2}, 1, 0}};
  return graph;
}
const Order kBlocking = {{Kind::compute, 0}, {Kind::exchange, 1}, {Kind::compute, 2}, {Kind::compute, 3}};
const Order kOverlapped = {
    {Kind::compute, 0}, {Kind::start, 1}, {Kind::compute, 2}, {Kind::wait, 1}, {Kind::compute, 3}};

TEST(Predict, ABlockingExchangeIsExposed) {
  const Prediction prediction = predict(small_graph(), kBlocking);
  EXPECT_EQ(prediction.seconds, 21);
  EXPECT_EQ(prediction.compute_seconds, 15);
  EXPECT_EQ(prediction.exchange_seconds, 6);
  EXPECT_EQ(prediction.exposed_seconds, 6);
}

TEST(Predict, AnOverlappedExchangeIsExposedForItsRest) {
  const Prediction prediction = predict(small_graph(), kOverlapped);
  EXPECT_EQ(prediction.seconds, 17);
  EXPECT_EQ(prediction.compute_seconds, 15);
  EXPECT_EQ(prediction.exposed_seconds, 2);
}

TEST(Predict, SlowerExchanges) {
  PredictOptions options;
  options.exchange_scale = 3;
  EXPECT_EQ(seconds(small_graph(), kBlocking, options), 33);
  EXPECT_EQ(predict(small_graph(), kOverlapped, options).exposed_seconds, 14);
  options.exchange_scale = 0;
  EXPECT_EQ(seconds(small_graph(), kBlocking, options), 15);
}

TEST(Predict, ProgressTakesTimeFromComputing) {
  PredictOptions options;
  options.progress_cost = 0.5;
  // Blocking: nothing is computed meanwhile.
  EXPECT_EQ(seconds(small_graph(), kBlocking, options), 21);
  // 4 s of computing beside 6 s of exchange: 3 s done when it ends at 16, the rest until 17.
  const Prediction half = predict(small_graph(), kOverlapped, options);
  EXPECT_EQ(half.seconds, 18);
  EXPECT_EQ(half.compute_seconds, 18);
  EXPECT_EQ(half.exposed_seconds, 0);
  // 2.4 s fit beside the exchange in 3 s.
  options.progress_cost = 0.2;
  EXPECT_DOUBLE_EQ(predict(small_graph(), kOverlapped, options).compute_seconds, 16);
  EXPECT_DOUBLE_EQ(predict(small_graph(), kOverlapped, options).exposed_seconds, 1);
  // Nothing can be computed while bytes move: no gain over blocking.
  options.progress_cost = 1;
  EXPECT_EQ(seconds(small_graph(), kOverlapped, options), 21);
}

TEST(Predict, ExchangesShareOneLaneInTheOrderOfTheirStarts) {
  StepGraph graph;
  graph.layers = 1;
  graph.steps = {{StepRole::scatter_value, 0, 0, 0, {}, 3, 0},
                 {StepRole::scatter_key, 0, 0, 0, {}, 5, 0},
                 {StepRole::mlp, 0, 0, 0, {1}, 1, 0}};
  // The second exchange ends at 8; the first one's wait costs nothing afterwards.
  const Prediction prediction = predict(
      graph, {{Kind::start, 0}, {Kind::start, 1}, {Kind::wait, 1}, {Kind::compute, 2}, {Kind::wait, 0}});
  EXPECT_EQ(prediction.seconds, 9);
  EXPECT_EQ(prediction.exposed_seconds, 8);
  // Started first, it ends at 5.
  EXPECT_EQ(
      seconds(graph,
              {{Kind::start, 1}, {Kind::start, 0}, {Kind::wait, 1}, {Kind::compute, 2}, {Kind::wait, 0}}),
      8);
  // A blocking exchange queues as well.
  EXPECT_EQ(seconds(graph, {{Kind::start, 0}, {Kind::exchange, 1}, {Kind::compute, 2}, {Kind::wait, 0}}), 9);
}

TEST(Predict, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](double scale, double progress) {
    return misuse_of([&] { (void)predict(small_graph(), kBlocking, {scale, progress}); });
  };
  EXPECT_EQ(refusal(-1, 0), "exchange_scale is -1.000000: expected 0 or more");
  EXPECT_EQ(refusal(1, 1.5), "progress_cost is 1.500000: expected a share between 0 and 1");
}

TEST(Predict, OfABlockByHand) {
  const StepGraph graph = test::with_layer_times(transformer_graph({}), 10, 8);
  EXPECT_DOUBLE_EQ(seconds(graph, flat_order(graph)), 18);
  // V (2 s) leaves at 1, Q at 3, K at 5 to 7; computing waits from 3 to 7, and 2 s for the output.
  const Prediction v_first = predict(graph, v_first_order(graph));
  EXPECT_DOUBLE_EQ(v_first.seconds, 16);
  EXPECT_DOUBLE_EQ(v_first.exposed_seconds, 6);
}

TEST(Predict, PipelinedIsNeverWorseThanVFirstAndThatThanFlat) {
  for (const auto& shape : test::small_shapes()) {
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
      const StepGraph graph = test::with_random_estimates(transformer_graph(shape), seed);
      SCOPED_TRACE(test::name(shape) + ", seed " + std::to_string(seed));
      const double flat = seconds(graph, flat_order(graph));
      const double v_first = seconds(graph, v_first_order(graph));
      const double pipelined = seconds(graph, pipelined_order(graph));
      EXPECT_LE(v_first, flat);
      EXPECT_LE(pipelined, v_first);
    }
  }
}

TEST(Predict, TheBestScheduleIsTheOneThatIsPredictedBest) {
  for (const auto& shape : test::small_shapes()) {
    const std::vector<StepKind> kinds = {{test::with_random_estimates(transformer_graph(shape), 77), 0.25},
                                         {test::with_random_estimates(transformer_graph(shape), 78), 0.75}};
    const ChosenSchedule best = best_schedule(kinds);
    for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
      double mean = 0;
      for (const StepKind& kind : kinds) {
        mean += kind.share * seconds(kind.graph, make_order(schedule, kind.graph));
      }
      EXPECT_LE(best.seconds, mean * (1 + 1e-9)) << test::name(shape);
      if (schedule == best.schedule) {
        EXPECT_EQ(best.seconds, mean) << test::name(shape);
      }
    }
  }
}

TEST(Predict, TheSimplerScheduleWinsTies) {
  StepGraph graph = transformer_graph({2, 2, 1, false});
  EXPECT_EQ(best_schedule({{graph}}).schedule, Schedule::flat);  // no estimates
  PredictOptions options;
  options.progress_cost = 1;
  graph = test::with_layer_times(graph, 1, 1);
  EXPECT_EQ(best_schedule({{graph}}, options).schedule, Schedule::flat);  // nothing can be gained
  EXPECT_EQ(best_schedule({{graph}}).schedule, Schedule::pipelined);
  EXPECT_THROW((void)best_schedule({}), std::invalid_argument);
}

/// Two units hide nearly all of the shorter lane behind the longer one, also when exchanges take twice or
/// half as long as the order was made for. In units of the longer lane, less the beginning and end in which
/// one lane must be idle.
double relative_to_longer_lane(double exchange, int groups, double scale) {
  constexpr int kLayers = 10;
  const StepGraph graph = test::with_layer_times(transformer_graph({2, kLayers, groups, false}), 1, exchange);
  PredictOptions options;
  options.exchange_scale = scale;
  const double layer = 1 + exchange * scale;
  const double longer = 2 * kLayers * std::max(1.0, exchange * scale);
  return (seconds(graph, pipelined_order(graph), options) - layer) / longer;
}

TEST(Predict, TwoUnitsHideNearlyEverything) {
  for (const double exchange : {0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0}) {
    SCOPED_TRACE("exchange " + std::to_string(exchange));
    EXPECT_LE(relative_to_longer_lane(exchange, 1, 1), 1.13);
    EXPECT_LE(relative_to_longer_lane(exchange, 2, 1), 1.00);
    EXPECT_LE(relative_to_longer_lane(exchange, 2, 2), 1.05);
    EXPECT_LE(relative_to_longer_lane(exchange, 2, 0.5), 1.30);
  }
}

}  // namespace
}  // namespace dit
