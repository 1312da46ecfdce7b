// V-Major in the engine: equal to exact where it sends everything, near it where little changes, ages as they
// are.
#include "wire/v_major.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/tensor_views.hpp"
#include "small_model.hpp"
#include "transfer/active_rows.hpp"

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

/// For `options.sampler.steps` steps.
void use(GenerateOptions& options, const VMajorPolicy& policy) {
  options.wire = wire_policy_of(policy, options.sampler.steps);
}

VMajorPolicy written(VMajorPolicy policy, WireFormat format, bool residual = false) {
  policy.format = format;
  policy.residual = residual;
  return policy;
}

TEST(VMajor, NothingStaysAtRatioZero) {
  GenerateOptions options = longer_image();
  for (const auto& group : {nodes(4, 2), nodes(6, 3), nodes(7, 2), nodes(3, 1)}) {
    options.wire.reset();
    const at::Tensor exact = generate_on(group, options).image;
    for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
      for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
        options.guidance_mode = mode;
        options.schedule = schedule;
        use(options, constant_ratio(0.0));
        EXPECT_TRUE(at::equal(generate_on(group, options).image, exact))
            << group.ranks << " ranks " << to_string(mode) << ' ' << to_string(schedule);
      }
    }
  }
}

// Rows of which none stays are what the policy of their format sends, bit for bit, in as many bytes but for
// masks; and all formats make rows smaller as they make tensors.
TEST(VMajor, RowsInAllFormats) {
  GenerateOptions options = longer_image();
  struct Case {
    const char* mode;
    WireFormat format;
    bool residual;
  };
  for (const auto& group : {nodes(4, 2), nodes(7, 3), nodes(9, 2)}) {
    options.wire.reset();
    const double exact = slow_bytes(generate_on(group, options));
    use(options, constant_ratio(0.5, 3, 4));
    const double wide = slow_bytes(generate_on(group, options));
    for (const Case& one :
         {Case{"bf16", WireFormat::bf16, false}, Case{"fp8", WireFormat::fp8, false},
          Case{"residual int8", WireFormat::int8, true}, Case{"residual int4", WireFormat::int4, true}}) {
      WireRule rule;
      rule.mode = parse_wire_mode(one.mode);
      options.wire.emplace();
      options.wire->rules = {rule};
      const GenerateResult expected = generate_on(group, options);
      rule.mode.stays = 0;
      options.wire->rules = {rule};
      const GenerateResult result = generate_on(group, options);
      EXPECT_TRUE(at::equal(result.image, expected.image)) << group.ranks << ' ' << one.mode;
      EXPECT_GT(slow_bytes(result), slow_bytes(expected));
      EXPECT_LT(slow_bytes(result), slow_bytes(expected) + 0.04 * exact);
      use(options, written(constant_ratio(0.5, 3, 4), one.format, one.residual));
      EXPECT_NEAR(slow_bytes(generate_on(group, options)) / wide, slow_bytes(expected) / exact, 0.1)
          << one.mode;  // groups of numbers are filled up, which in blocks so small is seen
    }
  }
}

// With momentum, a guard and ages: the same bits on all ranks (no rank waits for bytes that do not come), in
// all schedules.
TEST(VMajor, GoesWithTheRestOfAPolicy) {
  GenerateOptions options = longer_image();
  options.wire.emplace();
  WireRule rule;
  for (const auto& [mode, first] : {std::pair("residual int8", 0),
                                    {"v-major 0.6 residual int4", 2},
                                    {"skip", 5},
                                    {"v-major 0.5 fp8", 6},
                                    {"v-major 0.9 bf16", 7}}) {
    rule.mode = parse_wire_mode(mode);
    rule.steps.first = first;
    options.wire->rules.push_back(rule);
  }
  options.wire->momentum = 0.5F;
  options.wire->most_age = 3;
  options.guidance_mode = GuidanceMode::sequential;
  for (const double guard : {0.0, 0.1}) {
    options.wire->guard = guard;
    for (const auto& group : {nodes(4, 2), nodes(7, 3)}) {
      options.schedule = Schedule::flat;
      const GenerateResult expected = generate_on(group, options);
      options.schedule = Schedule::pipelined;
      EXPECT_TRUE(at::equal(generate_on(group, options).image, expected.image)) << group.ranks;
      int guarded = 0;
      for (const StepReport& step : expected.report.steps) guarded += step.guarded;
      EXPECT_EQ(guarded > 0, guard > 0);
    }
  }
}

// Rows that would be too old travel before those that changed most.
TEST(VMajor, NothingGetsTooOld) {
  GenerateOptions options = longer_image();
  const auto group = nodes(4, 2);
  use(options, constant_ratio(0.6));
  EXPECT_GE(generate_on(group, options).report.steps.back().oldest_row, 4);
  options.wire->most_age = 4;
  const GenerateResult result = generate_on(group, options);
  for (const StepReport& step : result.report.steps) EXPECT_LT(step.oldest_row, 4);
  EXPECT_GT(result.report.rows_by_age.at(1), 0U);
}

TEST(VMajor, NothingStaysWithoutSlowLinks) {
  GenerateOptions options = longer_image();
  const at::Tensor exact = generate_on(nodes(5, 0), options).image;
  use(options, constant_ratio(0.9));
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
  use(options, constant_ratio(0.9));
  EXPECT_TRUE(at::equal(generate_on(nodes(6, 3), options).image, exact));
  EXPECT_FALSE(at::equal(generate_on(nodes(6, 2), options).image, exact));
}

TEST(VMajor, MoreRanksThanTokens) {
  GenerateOptions options = longer_image();
  options.width = 12;  // nine tokens
  const at::Tensor exact = generate_on(nodes(12, 3), options).image;
  use(options, constant_ratio(0.0));
  EXPECT_TRUE(at::equal(generate_on(nodes(12, 3), options).image, exact));
  use(options, constant_ratio(0.7));
  EXPECT_LT(relative_difference(generate_on(nodes(12, 3), options).image, exact), 0.5);
}

TEST(VMajor, ScheduleAndGuidanceModeChangeNoBit) {
  GenerateOptions options = longer_image();
  use(options, constant_ratio(0.5, 2, 4));
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
  use(options, constant_ratio(0.5));
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
    use(options, constant_ratio(ratio, 5, 10));
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
  use(options, constant_ratio(1.0, 1, 0));
  const double never = relative_difference(generate_on(group, options).image, exact);
  use(options, constant_ratio(1.0, 1, 3));
  EXPECT_LT(relative_difference(generate_on(group, options).image, exact), never);
}

TEST(VMajor, SendsWhatItSays) {
  GenerateOptions options = longer_image();
  const auto group = nodes(4, 2);
  const GenerateResult exact = generate_on(group, options);
  const VMajorPolicy rule = constant_ratio(0.5, 2, 4);
  use(options, rule);
  const GenerateResult result = generate_on(group, options);
  int oldest = 0;
  for (std::size_t step = 0; step < result.report.steps.size(); ++step) {
    const StepReport& report = result.report.steps[step];
    const StepReport& all = exact.report.steps[step];
    const StepDecision decision = decide_step(rule, static_cast<int>(step), 10);
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
  use(options, VMajorPolicy{});
  run_local_ranks(nodes(4, 2), [&](ExchangeContext& context) {
    Engine engine(test::small_model(), &context);
    // Two layers, two branches, floats. Reference: own rows of 20; received: Q, K, V of the others' of 39
    // tokens, and an age of two bytes for each.
    const std::uint64_t own = context.rank() == 0 ? 9 : 10;
    const std::uint64_t heads = context.rank() == 3 ? 2 : 1;
    EXPECT_EQ(engine.cache_for(options).reference, 2U * 2 * 4 * own * 20);
    EXPECT_EQ(engine.cache_for(options).received, 2U * 2 * 3 * (39 - own) * (3 * heads * 4 + 2));
    GenerateOptions small = options;
    small.cache_budget = 1000;
    EXPECT_THROW(static_cast<void>(engine.generate(small)), std::length_error);
    small.cache_budget = 1 << 20;
    EXPECT_NO_THROW(static_cast<void>(engine.generate(small)));
  });
}

/// The published rule by its own words: of each sample the rows whose V is farthest, in absolute sums, from
/// what it was when the row last travelled; of equals the first.
class ModelOfRows {
 public:
  ModelOfRows(std::int64_t samples, const at::Tensor& value) : samples_(samples), sent_(value.clone()) {}
  std::vector<std::uint32_t> choose(const at::Tensor& value, double ratio) {
    const std::int64_t tokens = value.size(1);
    std::vector<std::uint32_t> active;
    for (std::int64_t sample = 0; sample < samples_; ++sample) {
      std::vector<std::pair<double, std::int64_t>> changes;
      for (std::int64_t token = 0; token < tokens; ++token) {
        const double change = (value[sample][token] - sent_[sample][token]).abs().sum().item<double>();
        changes.emplace_back(-change, token);
      }
      std::sort(changes.begin(), changes.end());
      changes.resize(static_cast<std::size_t>(
          tokens - static_cast<std::int64_t>(std::floor(ratio * static_cast<double>(tokens)))));
      for (const auto& [change, token] : changes) {
        active.push_back(static_cast<std::uint32_t>(sample * tokens + token));
        sent_[sample][token].copy_(value[sample][token]);
      }
    }
    std::sort(active.begin(), active.end());
    return active;
  }

 private:
  std::int64_t samples_;
  at::Tensor sent_;
};

TEST(ActiveRows, AreThoseOfThePublishedRule) {
  AttentionShape attention;
  attention.batch = 2;
  attention.image_tokens = 37;
  attention.heads = attention.kv_heads = 3;
  attention.head_dim = 4;
  const UlyssesLayout layout(attention, 2);
  const VMajorPolicy rule;
  const WirePlan plan(wire_policy_of(rule, 20), {1, 20, {"node", "world"}, 1});
  ActiveRows rows(plan, layout, 1, 1, WireElement::fp32);
  const at::Generator generator = cpu_generator(3);
  at::Tensor value = at::randn({2, layout.sequence_rows(1), 3, 4}, generator);
  ModelOfRows model(2, value);
  for (int step = 0; step < 20; ++step) {
    rows.choose(0, {0, step, 0}, source_view(value));
    const StepDecision decision = decide_step(rule, step, 20);
    const std::vector<std::uint32_t> expected = model.choose(value, decision.ratio);
    const std::vector<std::uint32_t> active(rows.active(0).begin(), rows.active(0).end());
    EXPECT_EQ(active, decision.full ? std::vector<std::uint32_t>{} : expected) << step;
    value = value + at::randn(value.sizes(), generator) * 0.1;
  }
}

/// Four rows: drifts of 1 each step in row 2 only.
TEST(ActiveRows, DriftsAddUpUntilTheyAreNoticed) {
  AttentionShape attention;
  attention.image_tokens = 8;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = 4;
  const WirePlan plan(wire_policy_of(constant_ratio(0.5), 4), {1, 4, {"node", "world"}, 1});
  ActiveRows rows(plan, UlyssesLayout(attention, 2), 0, 1, WireElement::fp32);
  at::Tensor value = at::zeros({1, 4, 2, 4});
  rows.choose(0, {0, 0, 0}, source_view(value));
  std::vector<bool> slow_row_sent;
  for (int step = 1; step <= 3; ++step) {
    // Rows 0 and 1 jump to and fro by 2.5, row 2 creeps by 1, row 3 rests: of four rows two travel.
    value.select(1, 0).fill_(step % 2 == 1 ? 2.5 : 0.0);
    value.select(1, 1).fill_(step % 2 == 1 ? 2.5 : 0.0);
    value.select(1, 2) += 1.0;
    rows.choose(0, {0, step, 0}, source_view(value));
    const auto active = rows.active(0);
    EXPECT_EQ(active.size(), 2U);
    slow_row_sent.push_back(std::find(active.begin(), active.end(), 2U) != active.end());
  }
  EXPECT_EQ(slow_row_sent, (std::vector<bool>{false, false, true}));
}

}  // namespace
}  // namespace dit
