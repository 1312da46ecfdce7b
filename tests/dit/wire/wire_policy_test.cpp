#include "wire/wire_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "predict/coding_gain.hpp"

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

std::string at(const WirePlan& plan, int step, int layer = 0, AttentionTensor tensor = AttentionTensor::query,
               int level = kSlow, int branch = 0) {
  return to_string(plan.mode(tensor, level, layer, step, branch));
}

TEST(WireMode, TextAndBack) {
  for (const char* text : {"full", "bf16", "fp8", "int4", "residual int8", "residual int1", "rows 0.5 fp8",
                           "rows 0.25 residual int4", "rows 0.1 full", "v-major 0.6 fp8", "v-major 0 full",
                           "v-major 1 residual int4", "late bf16", "late residual int4", "skip"}) {
    EXPECT_EQ(to_string(parse_wire_mode(text)), text);
  }
  for (const char* text : {"",
                           "residual",
                           "rows fp8",
                           "rows 0 fp8",
                           "rows 1 fp8",
                           "rows nan fp8",
                           "skip fp8",
                           "residual rows 0.5 fp8",
                           "fp8 residual",
                           "int3",
                           "rows 0.5",
                           "late",
                           "late skip",
                           "rows 0.5 late fp8",
                           "residual late fp8",
                           "v-major fp8",
                           "v-major 1.1 fp8",
                           "v-major nan fp8",
                           "v-major 0.5",
                           "v-major 0.5 rows 0.5 fp8",
                           "residual v-major 0.5 fp8"}) {
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
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::key, 0), "full");
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::key, 1), "fp8");
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::key, 2), "fp8");
  WireRule world = rule("int4");
  world.level = "world";
  const WirePlan far(policy({rule("fp8"), world}), shape());
  EXPECT_EQ(at(far, 9, 0, AttentionTensor::key, 1), "fp8");
  EXPECT_EQ(at(far, 9, 0, AttentionTensor::key, 2), "int4");
}

TEST(WirePlan, TensorsBranchesAndEvery) {
  WireRule some = rule("int4");
  some.tensors = {AttentionTensor::value, AttentionTensor::output};
  some.branch = 1;
  WireRule refresh = rule("full", {9, -1});
  refresh.every = 10;
  const WirePlan plan(policy({some, refresh}), shape());
  EXPECT_TRUE(plan.knows_branches());
  EXPECT_EQ(at(plan, 5, 0, AttentionTensor::value, kSlow, 1), "int4");
  EXPECT_EQ(at(plan, 5, 0, AttentionTensor::value, kSlow, 0), "full");
  EXPECT_EQ(at(plan, 5, 0, AttentionTensor::query, kSlow, 1), "full");
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::value, kSlow, 1), "full");
  EXPECT_EQ(at(plan, 10, 0, AttentionTensor::value, kSlow, 1), "int4");
  EXPECT_EQ(at(plan, 19, 0, AttentionTensor::output, kSlow, 1), "full");
}

TEST(WirePlan, NothingOldAtTheFirstStep) {
  EXPECT_EQ(at(WirePlan(policy({rule("skip")}), shape()), 0), "full");
  EXPECT_EQ(at(WirePlan(policy({rule("rows 0.5 fp8")}), shape()), 0), "fp8");
}

TEST(WirePlan, NothingIsLateWhereNobodyWouldUseIt) {
  const WirePlan plan(policy({rule("late bf16")}), shape());
  EXPECT_EQ(at(plan, 0), "bf16");
  EXPECT_EQ(at(plan, 1), "late bf16");
  EXPECT_EQ(at(plan, 48), "late bf16");
  EXPECT_EQ(at(plan, 49), "skip");
  EXPECT_TRUE(plan.remembers(AttentionTensor::query, kSlow, 0, WireEnd::sender));
  EXPECT_TRUE(plan.ages());
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
  EXPECT_TRUE(plan.touches(AttentionTensor::query, kSlow, 0));
  EXPECT_FALSE(plan.touches(AttentionTensor::query, 0, 0));
  EXPECT_FALSE(plan.remembers(AttentionTensor::query, kSlow, 0, WireEnd::sender));
  EXPECT_TRUE(plan.remembers(AttentionTensor::query, kSlow, 3, WireEnd::receiver));
  EXPECT_FALSE(plan.ages());
  EXPECT_TRUE(WirePlan(policy({rule("rows 0.5 fp8")}), shape()).ages());
}

TEST(WirePlan, VMajorsRows) {
  WireRule keys = rule("v-major 0.5 fp8", {4, -1}, {2, 3});
  keys.tensors = {AttentionTensor::key};
  WirePolicy some = policy({rule("bf16"), keys, rule("skip", {8, 8})});
  const WirePlan plan(some, shape());
  EXPECT_TRUE(plan.uses_v_major());
  EXPECT_TRUE(plan.uses_v_major(3));
  EXPECT_FALSE(plan.uses_v_major(0));
  EXPECT_EQ(plan.v_major(2, 3, 0), std::nullopt);
  EXPECT_EQ(plan.v_major(2, 4, 0), std::optional(0.5));
  EXPECT_EQ(plan.v_major(2, 8, 0), std::nullopt);
  EXPECT_TRUE(plan.brings_all_values(2, 3, 0));
  EXPECT_FALSE(plan.brings_all_values(2, 8, 0));
  EXPECT_DOUBLE_EQ(plan.active_fraction(4), 1 - 0.5 * 2 / 9);
  EXPECT_TRUE(plan.ages());
  const auto remembers = [](const WirePlan& of, AttentionTensor tensor, WireEnd end) {
    return of.remembers(tensor, kSlow, 2, end);
  };
  WirePolicy rows = policy({rule("v-major 0.5 bf16")});
  const WirePlan published(rows, shape());
  EXPECT_EQ(at(published, 0), "bf16");
  EXPECT_EQ(at(published, 1), "v-major 0.5 bf16");
  EXPECT_EQ(at(published, 1, 0, AttentionTensor::output), "bf16");
  EXPECT_TRUE(remembers(published, AttentionTensor::query, WireEnd::receiver));
  EXPECT_FALSE(remembers(published, AttentionTensor::query, WireEnd::sender));
  EXPECT_FALSE(remembers(published, AttentionTensor::output, WireEnd::receiver));
  rows.guard = 0.1;  // it looks at what the receiver has
  EXPECT_TRUE(remembers(WirePlan(rows, shape()), AttentionTensor::query, WireEnd::sender));
  rows = policy({rule("v-major 0.5 residual int4")});
  EXPECT_TRUE(remembers(WirePlan(rows, shape()), AttentionTensor::query, WireEnd::sender));
  EXPECT_TRUE(remembers(WirePlan(rows, shape()), AttentionTensor::output, WireEnd::sender));
}

// The rows of a layer are the same of all tensors and on all levels.
TEST(WirePlan, OneRatioOfVMajor) {
  WireRule world = rule("v-major 0.6 bf16");
  world.level = "world";
  EXPECT_THROW(WirePlan(policy({rule("v-major 0.5 bf16"), world}), shape()), std::invalid_argument);
  world.mode = parse_wire_mode("v-major 0.5 int4");
  EXPECT_NO_THROW(WirePlan(policy({rule("v-major 0.5 bf16"), world}), shape()));
  WireRule late = rule("v-major 0.5 bf16");
  late.mode.late = true;
  EXPECT_THROW(check(policy({late})), std::invalid_argument);
  late = rule("v-major 0.5 bf16");
  late.mode.stays = 1.5;
  EXPECT_THROW(check(policy({late})), std::invalid_argument);
}

TEST(WirePlan, OffLevelsAreFull) {
  WirePolicy some = policy({rule("residual int4")});
  some.off = {"rack"};
  const WirePlan plan(some, shape());
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::key, 1), "full");
  EXPECT_EQ(at(plan, 9, 0, AttentionTensor::key, 2), "residual int4");
  EXPECT_FALSE(plan.touches(AttentionTensor::key, 1, 0));
  EXPECT_FALSE(plan.remembers(AttentionTensor::key, 1, 0, WireEnd::sender));
  EXPECT_TRUE(plan.remembers(AttentionTensor::key, 2, 0, WireEnd::sender));
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
  numbers = {};
  numbers.off = {"planet"};
  refused(numbers);
}

// Bits of a number, of the mode of a step.
double bits_at(const WirePlan& plan, int step) {
  const WireMode mode = plan.mode(AttentionTensor::key, kSlow, 0, step, 0);
  switch (mode.format) {
    case WireFormat::int8:
      return 8;
    case WireFormat::int4:
      return 4;
    case WireFormat::int2:
      return 2;
    default:
      return mode.skip ? 0 : 1;
  }
}

TEST(WirePreset, FewerStepsMoreBits) {
  for (const char* name : {"balanced", "fast", "draft"}) {
    double before = 9;
    for (int steps = 1; steps <= 400; ++steps) {
      const WirePlan plan(wire_preset(name, steps), shape(9, steps));
      double sum = 0;
      for (int step = 0; step < steps; ++step) {
        const double bits = bits_at(plan, step);
        sum += bits;
        const bool falls = step == 0 || bits <= bits_at(plan, step - 1);
        EXPECT_TRUE(falls || name != std::string("balanced")) << name << ' ' << steps << ' ' << step;
      }
      EXPECT_LT(sum / steps, before * 1.2) << name << ' ' << steps;
      before = std::min(before, sum / steps);
      EXPECT_EQ(bits_at(plan, 0), 8);
    }
    EXPECT_LT(before, 1.3);
  }
}

TEST(WirePreset, BalancedOfFiftySteps) {
  const WirePlan plan(wire_preset("balanced", 50), shape());
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(at(plan, step), step < 2    ? "residual int8"
                              : step < 7  ? "residual int4"
                              : step < 14 ? "residual int2"
                                          : "residual int1");
  }
}

// Each rung of the ladder sends less than the one before, whatever the steps.
TEST(WirePreset, ALadder) {
  for (const int steps : {12, 20, 25, 50, 100}) {
    double before = 1;
    for (const char* name : {"bf16", "fine", "good", "balanced", "fast", "draft"}) {
      const WirePlan plan(wire_preset(name, steps), shape(9, steps));
      const double share = bytes_share(modes_of_level(plan, kSlow), WireElement::bf16);
      EXPECT_TRUE(share < before || std::string(name) == "bf16") << name << ' ' << steps << ' ' << share;
      before = share;
    }
  }
}

TEST(WirePreset, AllAreSound) {
  for (const std::string& name : wire_preset_names()) {
    for (const int steps : {1, 2, 3, 7, 25, 50, 1000}) {
      EXPECT_EQ(wire_preset(name, steps).name, name);
      static_cast<void>(WirePlan(wire_preset(name, steps), shape(9, steps)));
    }
  }
  EXPECT_TRUE(wire_preset("exact", 50).rules.empty());
  EXPECT_THROW(static_cast<void>(wire_preset("fastest", 50)), std::invalid_argument);
}

}  // namespace
}  // namespace dit
