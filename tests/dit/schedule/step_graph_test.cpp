#include "schedule/step_graph.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "../message_of.hpp"
#include "graphs.hpp"

namespace dit {
namespace {

using test::find;

std::vector<StepRole> roles_of_unit(const StepGraph& graph, int unit) {
  std::vector<StepRole> roles;
  for (const Step& step : graph.steps) {
    if (step.unit == unit) roles.push_back(step.role);
  }
  return roles;
}

const std::vector<StepId>& after(const StepGraph& graph, StepId id) {
  return graph.steps[static_cast<std::size_t>(id)].after;
}

TEST(StepGraph, OneBlockHasTheExpectedSteps) {
  using enum StepRole;
  EXPECT_EQ(roles_of_unit(transformer_graph({}), 0),
            (std::vector{prepare, value, query, key, scatter_value, scatter_query, scatter_key, attention,
                         gather_output, finish, mlp, last}));
  EXPECT_EQ(roles_of_unit(transformer_graph({1, 1, 1, true}), 0),
            (std::vector{prepare, value, score, query, key, scatter_value, scatter_query, scatter_key,
                         attention, gather_output, finish, mlp, last}));
}

TEST(StepGraph, UnitsFollowEachOtherAndAreIndependent) {
  const StepGraph graph = transformer_graph({2, 2, 3, true});
  EXPECT_EQ(roles_of_unit(graph, 0), roles_of_unit(graph, 1));
  int unit = 0;
  for (const Step& step : graph.steps) {
    EXPECT_GE(step.unit, unit);
    unit = step.unit;
    for (const StepId before : step.after) {
      EXPECT_EQ(graph.steps[static_cast<std::size_t>(before)].unit, step.unit) << step_name(step);
    }
  }
}

TEST(StepGraph, DependenciesOfABlock) {
  using enum StepRole;
  const StepGraph graph = transformer_graph({1, 2, 2, true});
  const auto one = [&](StepRole role, int layer, int group = 0) {
    return find(graph, role, 0, layer, group);
  };
  EXPECT_EQ(after(graph, one(value, 0)), std::vector{one(prepare, 0)});
  EXPECT_EQ(after(graph, one(value, 1)), std::vector{one(mlp, 0)});
  EXPECT_EQ(after(graph, one(query, 1)), std::vector{one(value, 1)});
  EXPECT_EQ(after(graph, one(key, 1)), std::vector{one(value, 1)});
  EXPECT_EQ(after(graph, one(scatter_value, 1, 1)), std::vector{one(score, 1)});
  EXPECT_EQ(after(graph, one(scatter_query, 1, 1)), (std::vector{one(query, 1), one(score, 1)}));
  EXPECT_EQ(after(graph, one(attention, 1, 1)),
            (std::vector{one(scatter_value, 1, 1), one(scatter_query, 1, 1), one(scatter_key, 1, 1)}));
  EXPECT_EQ(after(graph, one(finish, 0)), (std::vector{one(gather_output, 0, 0), one(gather_output, 0, 1)}));
  EXPECT_EQ(after(graph, one(last, 1)), std::vector{one(mlp, 1)});
}

TEST(StepGraph, MlpBesideAttention) {
  using enum StepRole;
  const StepGraph graph = transformer_graph({1, 2, 1, false, {{MlpPlace::after, 0}, {MlpPlace::beside, 1}}});
  EXPECT_EQ(
      roles_of_unit(graph, 0),
      (std::vector{prepare,     value,         query,         key,           scatter_value, scatter_query,
                   scatter_key, attention,     gather_output, finish,        mlp,           value,
                   query,       key,           mlp_in,        scatter_value, scatter_query, scatter_key,
                   attention,   gather_output, mlp_out,       finish,        last}));
  const auto one = [&](StepRole role) { return find(graph, role, 0, 1); };
  EXPECT_EQ(after(graph, one(value)), std::vector{find(graph, mlp, 0, 0)});
  EXPECT_EQ(after(graph, one(mlp_in)), std::vector{one(value)});
  EXPECT_EQ(after(graph, one(mlp_out)), std::vector{one(mlp_in)});
  EXPECT_EQ(after(graph, one(finish)), (std::vector{one(gather_output), one(mlp_out)}));
  EXPECT_EQ(after(graph, one(last)), std::vector{one(finish)});
  EXPECT_EQ(graph.block_of(1).kind, 1);
  EXPECT_EQ(verify(graph), "");
}

TEST(StepGraph, EveryShapeIsSound) {
  for (const auto& shape : test::small_shapes()) {
    SCOPED_TRACE(test::name(shape));
    EXPECT_EQ(verify(transformer_graph(shape)), "");
  }
}

TEST(StepGraph, Names) {
  const StepGraph graph = transformer_graph({2, 4, 2, true});
  const auto name = [&](StepRole role, int unit, int layer, int group = 0) {
    return step_name(graph.steps[static_cast<std::size_t>(find(graph, role, unit, layer, group))]);
  };
  EXPECT_EQ(name(StepRole::scatter_key, 1, 3, 1), "layer 3 unit 1 scatter_key group 1");
  EXPECT_EQ(name(StepRole::score, 1, 0), "layer 0 unit 1 score");
  EXPECT_EQ(name(StepRole::mlp, 0, 2), "layer 2 unit 0 mlp");
  EXPECT_EQ(name(StepRole::prepare, 1, 0), "unit 1 prepare");
}

std::string refusal(const BlockGraphOptions& options) {
  return misuse_of([&] { (void)transformer_graph(options); });
}

TEST(StepGraph, RefusesEmptyShapes) {
  EXPECT_EQ(refusal({0, 1, 1, false}), "units of a step graph is 0: expected at least 1");
  EXPECT_EQ(refusal({1, -2, 1, false}), "layers of a step graph is -2: expected at least 1");
  EXPECT_EQ(refusal({1, 1, 0, false}), "groups of a step graph is 0: expected at least 1");
  EXPECT_EQ(refusal({1, 3, 1, false, {{}, {}}}),
            "blocks of a step graph are 2: expected none or one for each of 3 layers");
}

TEST(StepGraph, VerifyTellsWhatIsWrong) {
  const StepGraph good = transformer_graph({});
  const auto fault = [&](auto&& change) {
    StepGraph graph = good;
    change(graph.steps[1]);
    return verify(graph);
  };
  const std::string step = "step 1 (layer 0 unit 0 value): ";
  EXPECT_EQ(fault([](Step& s) { s.after = {1}; }), step + "it comes after step 1, expected smaller ids only");
  EXPECT_EQ(fault([](Step& s) { s.after = {-1}; }),
            step + "it comes after step -1, expected smaller ids only");
  EXPECT_EQ(fault([](Step& s) { s.group = 1; }), step + "its group is not one of 1");
  EXPECT_EQ(fault([](Step& s) { s.seconds = -1; }), step + "its estimate is -1.000000 s, expected a time");
  EXPECT_EQ(fault([](Step& s) { s.unit = 2; }), "step 1 (layer 0 unit 2 value): its unit is not one of 1");
  EXPECT_EQ(fault([](Step& s) { s.layer = 5; }), "step 1 (layer 5 unit 0 value): its layer is not one of 1");
}

}  // namespace
}  // namespace dit
