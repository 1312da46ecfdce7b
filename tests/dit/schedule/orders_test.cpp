#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "../message_of.hpp"
#include "graphs.hpp"
#include "predict/choose_order.hpp"
#include "schedule/order.hpp"

namespace dit {
namespace {

using Kind = Action::Kind;
using test::find;

const Schedule kSchedules[] = {Schedule::flat, Schedule::v_first, Schedule::pipelined};

const Turns kTurns[] = {{false, 0}, {true, 0}, {false, 1}, {true, 1}, {true, 2}, {true, 100}};

std::size_t position(const Order& order, const Action& action) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), action) - order.begin());
}

TEST(Orders, EveryScheduleOfEveryShapeIsSound) {
  for (const auto& shape : test::small_shapes()) {
    for (std::uint32_t seed = 0; seed < 2; ++seed) {
      StepGraph graph = transformer_graph(shape);
      if (seed > 0) graph = test::with_random_estimates(graph, seed);
      SCOPED_TRACE(test::name(shape) + ", seed " + std::to_string(seed));
      for (const Schedule schedule : kSchedules) {
        const Order order = make_order(schedule, graph);
        EXPECT_EQ(verify(graph, order), "") << to_string(schedule);
      }
      for (const Turns turns : kTurns) EXPECT_EQ(verify(graph, interleaved_order(graph, turns)), "");
    }
  }
}

/// Any graph, not only transformers': exchanges after exchanges, exchanges that nobody needs, steps without
/// inputs.
StepGraph random_graph(std::uint32_t seed) {
  std::mt19937 random(seed);
  StepGraph graph;
  graph.layers = 1;
  const int steps = 1 + static_cast<int>(random() % 20);
  for (int id = 0; id < steps; ++id) {
    Step step;
    step.role = random() % 2 == 0 ? StepRole::mlp : StepRole::gather_output;
    for (int before = 0; before < id; ++before) {
      if (random() % 4 == 0) step.after.push_back(before);
    }
    graph.steps.push_back(std::move(step));
  }
  return test::with_random_estimates(graph, seed);
}

TEST(Orders, AnyGraphIsScheduled) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const StepGraph graph = random_graph(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Schedule schedule : kSchedules) EXPECT_EQ(verify(graph, make_order(schedule, graph)), "");
    for (const Turns turns : kTurns) EXPECT_EQ(verify(graph, interleaved_order(graph, turns)), "");
  }
}

TEST(Orders, FlatDoesOneThingAfterTheOther) {
  const StepGraph graph = transformer_graph({2, 2, 2, false});
  const Order order = flat_order(graph);
  ASSERT_EQ(order.size(), graph.steps.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i].step, static_cast<StepId>(i));
    EXPECT_EQ(order[i].kind, is_exchange(graph.steps[i].role) ? Kind::exchange : Kind::compute);
  }
}

TEST(Orders, VFirstSendsVUnderQAndQUnderK) {
  using enum StepRole;
  const StepGraph graph = transformer_graph({});
  const auto action = [&](Kind kind, StepRole role) { return Action{kind, find(graph, role)}; };
  EXPECT_EQ(v_first_order(graph), (Order{action(Kind::compute, prepare), action(Kind::compute, value),
                                         action(Kind::start, scatter_value), action(Kind::compute, query),
                                         action(Kind::start, scatter_query), action(Kind::compute, key),
                                         action(Kind::start, scatter_key), action(Kind::wait, scatter_value),
                                         action(Kind::wait, scatter_query), action(Kind::wait, scatter_key),
                                         action(Kind::compute, attention), action(Kind::start, gather_output),
                                         action(Kind::wait, gather_output), action(Kind::compute, finish),
                                         action(Kind::compute, mlp), action(Kind::compute, last)}));
}

TEST(Orders, VFirstSendsActiveRowsOfVUnderQ) {
  using enum StepRole;
  const StepGraph graph = transformer_graph({1, 1, 1, true});
  const auto action = [&](Kind kind, StepRole role) { return Action{kind, find(graph, role)}; };
  const Order order = v_first_order(graph);
  const Order begin = {action(Kind::compute, prepare),   action(Kind::compute, value),
                       action(Kind::compute, score),     action(Kind::start, scatter_value),
                       action(Kind::compute, query),     action(Kind::start, scatter_query),
                       action(Kind::compute, key),       action(Kind::start, scatter_key),
                       action(Kind::wait, scatter_value)};
  ASSERT_GE(order.size(), begin.size());
  EXPECT_EQ(Order(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(begin.size())), begin);
}

TEST(Orders, AnMlpBesideAttentionHidesWhatTheProjectionsDoNot) {
  using enum StepRole;
  const StepGraph graph = transformer_graph({1, 1, 1, false, {{MlpPlace::beside, 0}}});
  const Order order = v_first_order(graph);
  const auto at = [&](Kind kind, StepRole role) { return position(order, {kind, find(graph, role)}); };
  for (const StepRole scatter : {scatter_value, scatter_query, scatter_key}) {
    EXPECT_LT(at(Kind::start, scatter), at(Kind::compute, mlp_in));
    EXPECT_LT(at(Kind::compute, mlp_in), at(Kind::wait, scatter));
  }
  EXPECT_LT(at(Kind::start, gather_output), at(Kind::compute, mlp_out));
  EXPECT_LT(at(Kind::compute, mlp_out), at(Kind::wait, gather_output));
}

TEST(Orders, VFirstOverlapsGroups) {
  const StepGraph graph = transformer_graph({1, 1, 2, false});
  const Order order = v_first_order(graph);
  const auto at = [&](Kind kind, StepRole role, int group) {
    return position(order, {kind, find(graph, role, 0, 0, group)});
  };
  EXPECT_LT(at(Kind::compute, StepRole::attention, 0), at(Kind::wait, StepRole::scatter_key, 1));
  EXPECT_LT(at(Kind::start, StepRole::gather_output, 0), at(Kind::compute, StepRole::attention, 1));
}

TEST(Orders, PipelinedInterleavesUnits) {
  for (const bool estimated : {false, true}) {
    StepGraph graph = transformer_graph({2, 4, 1, false});
    if (estimated) graph = test::with_layer_times(graph, 1, 1);
    const Order order = pipelined_order(graph);
    // Unit 1 begins long before unit 0 is done, and while an exchange of the other unit is under way.
    EXPECT_LT(position(order, {Kind::compute, find(graph, StepRole::value, 1, 0)}),
              position(order, {Kind::compute, find(graph, StepRole::value, 0, 1)}));
    EXPECT_LT(position(order, {Kind::start, find(graph, StepRole::scatter_key, 0, 0)}),
              position(order, {Kind::compute, find(graph, StepRole::key, 1, 0)}));
  }
}

TEST(Orders, EveryRankMakesTheSameOrder) {
  const StepGraph graph = test::with_random_estimates(transformer_graph({2, 3, 2, true}), 9);
  EXPECT_EQ(pipelined_order(graph), pipelined_order(StepGraph(graph)));
}

TEST(Orders, OneUnitHasNobodyToInterleaveWith) {
  for (const auto& shape : test::small_shapes()) {
    if (shape.units != 1) continue;
    const StepGraph graph = transformer_graph(shape);
    EXPECT_EQ(interleaved_order(graph), v_first_order(graph)) << test::name(shape);
  }
}

/// The computations of an order: "0V 1V" for V of unit 0, then of unit 1.
std::string computed(const StepGraph& graph, const Order& order) {
  std::string text;
  for (const Action& action : order) {
    if (action.kind != Kind::compute) continue;
    const Step& step = graph.steps[static_cast<std::size_t>(action.step)];
    text += std::to_string(step.unit) + std::string(1, to_string(step.role)[0]) + " ";
  }
  return text;
}

TEST(Orders, UnitsTakeTurns) {
  const StepGraph graph = transformer_graph({2, 2, 2, false});
  // prepare, value, query, key; attention of both groups; finish, mlp, value, ...
  EXPECT_EQ(
      computed(graph, interleaved_order(graph)),
      "0p 0v 0q 0k 1p 1v 1q 1k 0a 0a 1a 1a 0f 0m 0v 0q 0k 1f 1m 1v 1q 1k 0a 0a 1a 1a 0f 0m 0l 1f 1m 1l ");
  EXPECT_EQ(
      computed(graph, interleaved_order(graph, {true, 1})),
      "0p 0v 0q 0k 0a 0a 1p 1v 1q 1k 0f 0m 1a 1a 0v 0q 0k 1f 1m 0a 0a 1v 1q 1k 0f 0m 0l 1a 1a 1f 1m 1l ");
  EXPECT_EQ(misuse_of([&] {
              (void)interleaved_order(graph, {false, -1});
            }),
            "behind is -1: expected 0 or more turns");
}

TEST(Orders, NamesAreReadBack) {
  for (const Schedule schedule : kSchedules) EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  EXPECT_EQ(misuse_of([] { (void)parse_schedule("fast"); }),
            "schedule \"fast\" is not known: expected one of flat, v-first, pipelined");
}

/// What verify says after a change of V-First's order of one block.
std::string fault_after(const std::function<void(Order&)>& change) {
  const StepGraph graph = transformer_graph({});
  Order order = v_first_order(graph);
  change(order);
  return verify(graph, order);
}

TEST(Verify, TellsWhatIsWrong) {
  // 0 prepare, 1 value, 2 start V, 3 query, 4 start Q, 5 key, 6 start K, 7-9 waits, 10 attention, ...
  EXPECT_EQ(fault_after([](Order& order) { order.erase(order.begin() + 8); }),
            "action 9, compute of step 7 (layer 0 unit 0 attention group 0): needs step 5 (layer 0 unit 0 "
            "scatter_query group 0), which was not waited for");
  EXPECT_EQ(fault_after([](Order& order) { std::swap(order[1], order[2]); }),
            "action 1, start of step 4 (layer 0 unit 0 scatter_value group 0): needs step 1 (layer 0 unit 0 "
            "value), "
            "which comes later");
  EXPECT_EQ(fault_after([](Order& order) { order.insert(order.begin() + 3, order[2]); }),
            "action 3, start of step 4 (layer 0 unit 0 scatter_value group 0): it is done twice");
  EXPECT_EQ(fault_after([](Order& order) { order.insert(order.begin() + 9, order[7]); }),
            "action 9, wait of step 4 (layer 0 unit 0 scatter_value group 0): it is complete already");
  EXPECT_EQ(fault_after([](Order& order) { std::swap(order[2], order[7]); }),
            "action 2, wait of step 4 (layer 0 unit 0 scatter_value group 0): it was not started");
  EXPECT_EQ(fault_after([](Order& order) { order.pop_back(); }), "step 11 (unit 0 last) is never done");
  EXPECT_EQ(
      fault_after([](Order& order) { order[2].kind = Kind::compute; }),
      "action 2, compute of step 4 (layer 0 unit 0 scatter_value group 0): an exchange cannot be computed");
  EXPECT_EQ(fault_after([](Order& order) { order[1].kind = Kind::exchange; }),
            "action 1, exchange of step 1 (layer 0 unit 0 value): it is not an exchange");
  EXPECT_EQ(fault_after([](Order& order) { order[1].step = 12; }),
            "action 1, compute of step 12: no such step");
}

TEST(Verify, AnExchangeThatNobodyNeedsIsWaitedForAsWell) {
  StepGraph graph;
  graph.layers = 1;
  graph.steps.resize(1);
  graph.steps[0].role = StepRole::gather_output;
  EXPECT_EQ(verify(graph, {{Kind::start, 0}}),
            "step 0 (layer 0 unit 0 gather_output group 0) is started and never waited for");
  EXPECT_EQ(verify(graph, {{Kind::start, 0}, {Kind::wait, 0}}), "");
  graph.steps[0].unit = 1;
  EXPECT_EQ(verify(graph, {}), "step 0 (layer 0 unit 1 gather_output group 0): its unit is not one of 1");
}

/// Mutations that always break an order: one action missing or doubled, or one before what it needs.
TEST(Verify, RejectsEveryMissingAndDoubledAction) {
  for (const auto& shape : test::small_shapes()) {
    const StepGraph graph = test::with_random_estimates(transformer_graph(shape), 3);
    for (const Schedule schedule : kSchedules) {
      const Order good = make_order(schedule, graph);
      for (std::size_t i = 0; i < good.size(); ++i) {
        Order missing = good;
        missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(verify(graph, missing), "") << test::name(shape) << ", action " << i;
        Order doubled = good;
        doubled.push_back(good[i]);
        EXPECT_NE(verify(graph, doubled), "") << test::name(shape) << ", action " << i;
        Order early = good;
        std::rotate(early.begin(), early.begin() + static_cast<std::ptrdiff_t>(i),
                    early.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        const bool independent =
            graph.steps[static_cast<std::size_t>(good[i].step)].after.empty() && good[i].kind != Kind::wait;
        if (!independent) {
          EXPECT_NE(verify(graph, early), "") << test::name(shape) << ", action " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dit
