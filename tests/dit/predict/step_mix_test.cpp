#include "predict/step_mix.hpp"

#include <gtest/gtest.h>

#include "policies.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

using test::policy;
using test::rule;

TEST(TensorShares, AreWhatTheModesOfAStepSend) {
  WireRule values = rule("bf16", {1, -1});
  values.tensors = {AttentionTensor::value};
  WireRule outputs = rule("skip", {1, -1}, {0, 2});  // three of nine layers
  outputs.tensors = {AttentionTensor::output};
  const WirePlan plan(policy({values, outputs}), test::run_shape());
  EXPECT_EQ(tensor_shares(plan, 0, WireElement::fp32), (TensorShares{1, 1, 1, 1}));
  const TensorShares later = tensor_shares(plan, 1, WireElement::fp32);
  EXPECT_EQ(later[0], 1);
  EXPECT_EQ(later[2], 0.5);
  EXPECT_NEAR(later[3], 2.0 / 3, 1e-12);
  EXPECT_EQ(tensor_shares(plan, 1, WireElement::bf16)[2], 1);
}

TEST(TensorShares, CountLevelsBetweenNodesAlike) {
  WireRule world = rule("bf16");
  world.level = "world";
  const WirePlan plan(policy({world}), test::run_shape());
  EXPECT_EQ(tensor_shares(plan, 3, WireElement::fp32)[1], 0.75);  // rack and world
}

TEST(StepMix, TellsStepsInWhichRowsStayFromTheOthers) {
  VMajorPolicy v_major;
  const StepMix mix = mix_of(wire_policy_of(v_major, 50), 4, 50, WireElement::bf16);
  EXPECT_GT(mix.full_share, 0);
  EXPECT_LT(mix.full_share, 1);
  EXPECT_EQ(mix.full.scatter, 1);
  EXPECT_LT(mix.selective.scatter, 1);
  EXPECT_EQ(mix.selective.output, 1);
  const StepMix same = mix_of(policy({rule("bf16")}), 4, 50, WireElement::fp32);
  EXPECT_EQ(same.full_share, 1);
  EXPECT_EQ(same.full.scatter, 0.5);
  EXPECT_EQ(same.full.output, 0.5);
}

TEST(StepMix, MixesPredictions) {
  const Prediction half = mixed({4, 3, 2, 1}, {8, 5, 6, 3}, 0.25);
  EXPECT_EQ(half.seconds, 7);
  EXPECT_EQ(half.compute_seconds, 4.5);
  EXPECT_EQ(half.exchange_seconds, 5);
  EXPECT_EQ(half.exposed_seconds, 2.5);
}

}  // namespace
}  // namespace dit
