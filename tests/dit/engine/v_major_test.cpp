// V-Major in the engine: equal to exact where it sends everything, near it where little changes, ages as they
// are.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/v_major_exchange.hpp"
#include "small_model.hpp"

namespace dit {
namespace {

using test::generate_on;
using test::longer_image;
using test::nodes;
using test::relative_difference;
using test::slow_bytes;

VMajorPolicy constant_ratio(double ratio, int warmup = 1, int refresh = 0) {
  VMajorPolicy policy;
  policy.warmup_steps = warmup;
  policy.refresh_every = refresh;
  policy.ratio.kind = RatioSchedule::Kind::constant;
  policy.ratio.value = ratio;
  return policy;
}

TEST(VMajor, NothingStaysAtRatioZero) {
  GenerateOptions options = longer_image();
  for (const auto& group : {nodes(4, 2), nodes(6, 3), nodes(7, 2), nodes(3, 1)}) {
    options.v_major.reset();
    const at::Tensor exact = generate_on(group, options).image;
    for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
      for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
        options.guidance_mode = mode;
        options.schedule = schedule;
        options.v_major = constant_ratio(0.0);
        EXPECT_TRUE(at::equal(generate_on(group, options).image, exact))
            << group.ranks << " ranks " << to_string(mode) << ' ' << to_string(schedule);
      }
    }
  }
}

// All rows in 16 bits are what the wire policy of 16 bits sends, bit for bit, in as many bytes but for masks.
TEST(VMajor, NarrowRowsAreThoseOfTheWirePolicy) {
  GenerateOptions options = longer_image();
  for (const auto& group : {nodes(4, 2), nodes(7, 3), nodes(9, 2)}) {
    options.v_major.reset();
    const double exact = slow_bytes(generate_on(group, options));
    options.wire = wire_preset("bf16", options.sampler.steps);
    const GenerateResult expected = generate_on(group, options);
    options.wire.reset();
    options.v_major = constant_ratio(0.0);
    options.v_major->bf16 = true;
    const GenerateResult result = generate_on(group, options);
    EXPECT_TRUE(at::equal(result.image, expected.image)) << group.ranks;
    EXPECT_NEAR(slow_bytes(result) / exact, 0.5, 0.03);
    options.v_major = constant_ratio(0.5, 3, 4);
    const double wide = slow_bytes(generate_on(group, options));
    options.v_major->bf16 = true;
    EXPECT_NEAR(slow_bytes(generate_on(group, options)) / wide, 0.5, 0.03);
  }
}

TEST(VMajor, NothingStaysWithoutSlowLinks) {
  GenerateOptions options = longer_image();
  const at::Tensor exact = generate_on(nodes(5, 0), options).image;
  options.v_major = constant_ratio(0.9);
  const GenerateResult result = generate_on(nodes(5, 0), options);
  EXPECT_TRUE(at::equal(result.image, exact));
  EXPECT_EQ(result.report.cache.total(), 0U);
}

TEST(
    VMajor,
    NothingStaysWhereHalvesOfTheRanksAreNodes) {  // links are slow, but not between those that share a branch
  GenerateOptions options = longer_image();
  options.guidance_mode = GuidanceMode::parallel;
  const at::Tensor exact = generate_on(nodes(6, 3), options).image;
  options.v_major = constant_ratio(0.9);
  EXPECT_TRUE(at::equal(generate_on(nodes(6, 3), options).image, exact));
  EXPECT_FALSE(at::equal(generate_on(nodes(6, 2), options).image, exact));
}

TEST(VMajor, MoreRanksThanTokens) {
  GenerateOptions options = longer_image();
  options.width = 12;  // nine tokens
  const at::Tensor exact = generate_on(nodes(12, 3), options).image;
  options.v_major = constant_ratio(0.0);
  EXPECT_TRUE(at::equal(generate_on(nodes(12, 3), options).image, exact));
  options.v_major = constant_ratio(0.7);
  EXPECT_LT(relative_difference(generate_on(nodes(12, 3), options).image, exact), 0.5);
}

TEST(VMajor, ScheduleAndGuidanceModeChangeNoBit) {
  GenerateOptions options = longer_image();
  options.v_major = constant_ratio(0.5, 2, 4);
  for (const auto& group : {nodes(4, 2), nodes(7, 3)}) {
    options.schedule = Schedule::flat;
    options.guidance_mode = GuidanceMode::batched;
    const at::Tensor expected = generate_on(group, options).image;
    for (const Schedule schedule : {Schedule::v_first, Schedule::pipelined}) {
      for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
        options.schedule = schedule;
        options.guidance_mode = mode;
        EXPECT_TRUE(at::equal(generate_on(group, options).image, expected))
            << to_string(schedule) << ' ' << to_string(mode);
      }
    }
  }
}

TEST(VMajor, HeadGroupsChangeNoBit) {
  GenerateOptions options = longer_image();
  options.v_major = constant_ratio(0.5);
  const at::Tensor expected = generate_on(nodes(2, 1), options).image;
  options.head_groups = 3;
  EXPECT_TRUE(at::equal(generate_on(nodes(2, 1), options).image, expected));
}

TEST(VMajor, LittleIsLostAtSmallRatiosMoreAtLargeOnes) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 30;
  const auto group = nodes(4, 2);
  const at::Tensor exact = generate_on(group, options).image;
  double last = 0;
  for (const double ratio : {0.1, 0.5, 1.0}) {
    options.v_major = constant_ratio(ratio, 5, 10);
    const double lost = relative_difference(generate_on(group, options).image, exact);
    EXPECT_GT(lost, last) << ratio;
    last = lost;
    if (ratio == 0.1) {
      EXPECT_LT(lost, 0.03);
    }
  }
  EXPECT_LT(last, 0.5);
}

TEST(VMajor, RefreshBringsItNearer) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 20;
  const auto group = nodes(3, 1);
  const at::Tensor exact = generate_on(group, options).image;
  options.v_major = constant_ratio(1.0, 1, 0);
  const double never = relative_difference(generate_on(group, options).image, exact);
  options.v_major = constant_ratio(1.0, 1, 3);
  EXPECT_LT(relative_difference(generate_on(group, options).image, exact), never);
}

TEST(VMajor, SendsWhatItSays) {
  GenerateOptions options = longer_image();
  const auto group = nodes(4, 2);
  const GenerateResult exact = generate_on(group, options);
  options.v_major = constant_ratio(0.5, 2, 4);
  const GenerateResult result = generate_on(group, options);
  int oldest = 0;
  for (std::size_t step = 0; step < result.report.steps.size(); ++step) {
    const StepReport& report = result.report.steps[step];
    const StepReport& all = exact.report.steps[step];
    const StepDecision decision = decide_step(*options.v_major, static_cast<int>(step), 10);
    oldest = decision.full ? 0 : oldest + 1;
    EXPECT_LE(report.oldest_row, oldest) << step;
    EXPECT_GE(report.oldest_row, decision.full ? 0 : 1) << step;
    if (decision.full) {
      EXPECT_EQ(report.slow_bytes, all.slow_bytes);
      EXPECT_EQ(report.active_fraction, 1);
    } else {
      EXPECT_NEAR(report.active_fraction, 0.5, 0.06);
      EXPECT_LT(report.slow_bytes, 0.75 * static_cast<double>(all.slow_bytes));  // the output is not reduced
      EXPECT_GE(report.fast_bytes, all.fast_bytes);                              // nothing saved there
    }
  }
  EXPECT_GT(result.report.cache.total(), 0U);
}

TEST(VMajor, CacheIsCountedBeforeAndRefusedOverBudget) {
  GenerateOptions options = longer_image();
  options.v_major = VMajorPolicy{};
  run_local_ranks(nodes(4, 2), [&](ExchangeContext& context) {
    Engine engine(test::small_model(), &context);
    // Two layers, two branches, floats. Reference: own rows of 20; received: Q, K, V of 39 tokens.
    const std::uint64_t own = context.rank() == 0 ? 9 : 10;
    const std::uint64_t heads = context.rank() == 3 ? 2 : 1;
    EXPECT_EQ(engine.cache_for(options).reference, 2U * 2 * 4 * own * 20);
    EXPECT_EQ(engine.cache_for(options).received, 2U * 2 * 4 * 3 * 39 * heads * 4);
    GenerateOptions small = options;
    small.cache_budget = 1000;
    EXPECT_THROW(static_cast<void>(engine.generate(small)), std::length_error);
    small.cache_budget = 1 << 20;
    EXPECT_NO_THROW(static_cast<void>(engine.generate(small)));
  });
}

/// Four rows of one sample on one rank of two, one head: drifts of 1 each step in row 2 only.
TEST(VMajorExchange, DriftsAddUpUntilTheyAreNoticed) {
  AttentionShape attention;
  attention.image_tokens = 8;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = 4;
  const UlyssesLayout layout(attention, 2);
  run_local_ranks(nodes(2, 1), [&](ExchangeContext& context) {
    VMajorExchange::Shape shape;
    shape.layers = shape.units = shape.groups = 1;
    VMajorExchange caches(layout, context, shape);
    TensorExchange full(layout.scatter_heads(AttentionTensor::value, context.rank()), {1, 8, 1, 4},
                        at::kFloat, 0);
    const Received cached = full.make_received();
    at::Tensor value = at::zeros({1, 4, 2, 4});
    caches.sent_in_full(0, 0, value, 0);
    std::vector<bool> slow_row_sent;
    for (int step = 1; step <= 3; ++step) {
      // Rows 0 and 1 jump to and fro by 2.5, row 2 creeps by 1, row 3 rests: of four rows two travel.
      value.select(1, 0).fill_(step % 2 == 1 ? 2.5 : 0.0);
      value.select(1, 1).fill_(step % 2 == 1 ? 2.5 : 0.0);
      value.select(1, 2) += 1.0;
      caches.begin(0.5);
      caches.choose(0, 0, value);
      caches.pack(0, AttentionTensor::value, 0, value);
      caches.start(0, AttentionTensor::value, 0, true, "V").wait();
      caches.arrived(0, 0, AttentionTensor::value, 0, full, cached, step);
      const at::Tensor theirs = cached.tensor.select(0, 0).narrow(0, 4 * (1 - context.rank()), 4);
      slow_row_sent.push_back(at::equal(theirs[2][0], at::full({4}, static_cast<float>(step))));
      EXPECT_EQ(caches.oldest(step), step) << "row 3 rests since step 0";
    }
    EXPECT_EQ(slow_row_sent, (std::vector<bool>{false, false, true}));
  });
}

}  // namespace
}  // namespace dit
