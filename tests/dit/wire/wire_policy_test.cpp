#include "wire/wire_policy.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dit {
namespace {

constexpr int kSlow = 1;

WirePlan::Shape shape(int layers = 9, int steps = 50) {
  return {layers, steps, {"node", "rack", "world"}, kSlow};
}

WireRule rule(const char* mode, WireRange steps = {}, WireRange layers = {}) {
  WireRule rule;
  rule.mode = parse_wire_mode(mode);
  rule.steps = steps;
  rule.layers = layers;
  return rule;
}

WirePolicy policy(std::vector<WireRule> rules) {
  WirePolicy policy;
  policy.rules = std::move(rules);
  return policy;
}

std::string at(const WirePlan& plan, int step, int layer = 0, WireTensor tensor = WireTensor::query,
               int level = kSlow, int branch = 0) {
  return to_string(plan.mode(tensor, level, layer, step, branch));
}

TEST(WireMode, TextAndBack) {
  for (const char* text : {"full", "bf16", "fp8", "int4", "residual int8", "residual int1", "rows 0.5 fp8",
                           "rows 0.25 residual int4", "rows 0.1 full", "skip"}) {
    EXPECT_EQ(to_string(parse_wire_mode(text)), text);
  }
  for (const char* text : {"", "residual", "rows fp8", "rows 0 fp8", "rows 1 fp8", "rows nan fp8", "skip fp8",
                           "residual rows 0.5 fp8", "fp8 residual", "int3", "rows 0.5"}) {
    EXPECT_THROW(static_cast<void>(parse_wire_mode(text)), std::invalid_argument) << text;
  }
}

TEST(WirePlan, TheLastRuleCounts) {
  const WirePlan plan(
      policy({rule("residual int2"), rule("residual int8", {0, 3}), rule("bf16", {}, {-1, -1})}), shape());
  EXPECT_EQ(at(plan, 0), "residual int8");
  EXPECT_EQ(at(plan, 3), "residual int8");
  EXPECT_EQ(at(plan, 4), "residual int2");
  EXPECT_EQ(at(plan, 2, 8), "bf16");
  EXPECT_EQ(at(plan, 49, 7), "residual int2");
}

TEST(WirePlan, FastLinksStayFull) {
  const WirePlan plan(policy({rule("fp8")}), shape());
  EXPECT_EQ(at(plan, 9, 0, WireTensor::key, 0), "full");
  EXPECT_EQ(at(plan, 9, 0, WireTensor::key, 1), "fp8");
  EXPECT_EQ(at(plan, 9, 0, WireTensor::key, 2), "fp8");
  WireRule world = rule("int4");
  world.level = "world";
  const WirePlan far(policy({rule("fp8"), world}), shape());
  EXPECT_EQ(at(far, 9, 0, WireTensor::key, 1), "fp8");
  EXPECT_EQ(at(far, 9, 0, WireTensor::key, 2), "int4");
}

TEST(WirePlan, TensorsBranchesAndEvery) {
  WireRule some = rule("int4");
  some.tensors = {WireTensor::value, WireTensor::output};
  some.branch = 1;
  WireRule refresh = rule("full", {9, -1});
  refresh.every = 10;
  const WirePlan plan(policy({some, refresh}), shape());
  EXPECT_TRUE(plan.knows_branches());
  EXPECT_EQ(at(plan, 5, 0, WireTensor::value, kSlow, 1), "int4");
  EXPECT_EQ(at(plan, 5, 0, WireTensor::value, kSlow, 0), "full");
  EXPECT_EQ(at(plan, 5, 0, WireTensor::query, kSlow, 1), "full");
  EXPECT_EQ(at(plan, 9, 0, WireTensor::value, kSlow, 1), "full");
  EXPECT_EQ(at(plan, 10, 0, WireTensor::value, kSlow, 1), "int4");
  EXPECT_EQ(at(plan, 19, 0, WireTensor::output, kSlow, 1), "full");
}

TEST(WirePlan, NothingOldAtTheFirstStep) {
  EXPECT_EQ(at(WirePlan(policy({rule("skip")}), shape()), 0), "full");
  EXPECT_EQ(at(WirePlan(policy({rule("rows 0.5 fp8")}), shape()), 0), "fp8");
}

TEST(WirePlan, NothingGetsTooOld) {
  WirePolicy skips = policy({rule("skip")});
  const WirePlan any(skips, shape());
  for (int step = 1; step < 50; ++step) EXPECT_EQ(at(any, step), "skip");
  skips.most_age = 3;
  const WirePlan plan(skips, shape());
  for (int step = 0; step < 50; ++step) EXPECT_EQ(at(plan, step), step % 3 == 0 ? "full" : "skip") << step;
}

TEST(WirePlan, WhatItRemembersAndTouches) {
  const WirePlan plan(policy({rule("fp8"), rule("residual int4", {}, {2, 3})}), shape());
  EXPECT_TRUE(plan.touches(WireTensor::query, kSlow, 0));
  EXPECT_FALSE(plan.touches(WireTensor::query, 0, 0));
  EXPECT_FALSE(plan.remembers(WireTensor::query, kSlow, 0));
  EXPECT_TRUE(plan.remembers(WireTensor::query, kSlow, 3));
  EXPECT_FALSE(plan.ages());
  EXPECT_TRUE(WirePlan(policy({rule("rows 0.5 fp8")}), shape()).ages());
}

TEST(WirePlan, RefusesNonsense) {
  const auto refused = [](WirePolicy wrong) {
    EXPECT_THROW(WirePlan(wrong, shape()), std::invalid_argument);
  };
  refused(policy({rule("fp8", {5, 4})}));
  refused(policy({rule("fp8", {}, {-1, -2})}));
  WireRule bad = rule("fp8");
  bad.level = "planet";
  refused(policy({bad}));
  bad = rule("fp8");
  bad.every = 0;
  refused(policy({bad}));
  bad = rule("fp8");
  bad.branch = 2;
  refused(policy({bad}));
  WirePolicy numbers;
  numbers.momentum = 1.5F;
  refused(numbers);
  numbers = {};
  numbers.most_age = -1;
  refused(numbers);
  numbers = {};
  numbers.guard = -1;
  refused(numbers);
}

TEST(WirePreset, AllAreSound) {
  for (const std::string& name : wire_preset_names()) {
    EXPECT_EQ(wire_preset(name).name, name);
    check(wire_preset(name));
  }
  EXPECT_TRUE(wire_preset("exact").rules.empty());
  EXPECT_THROW(static_cast<void>(wire_preset("fastest")), std::invalid_argument);
}

}  // namespace
}  // namespace dit
