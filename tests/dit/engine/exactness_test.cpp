// Exact modes: the same bits whatever the schedule, the same image whatever the ranks.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "small_model.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

using test::generate_on;
using test::relative_difference;
using test::small_image;

class OnRanks : public testing::TestWithParam<int> {};

TEST_P(OnRanks, EveryScheduleGivesTheBitsOfFlat) {
  GenerateOptions options = small_image();
  options.schedule = Schedule::flat;
  options.guidance_mode = GuidanceMode::batched;
  const at::Tensor flat = generate_on(GetParam(), options).image;
  ASSERT_EQ(flat.sizes(), (at::IntArrayRef{2, 12, 52}));
  ASSERT_TRUE(std::isfinite(flat.abs().max().item<double>()));
  for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
    for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
      options.schedule = schedule;
      options.guidance_mode = mode;
      EXPECT_TRUE(at::equal(generate_on(GetParam(), options).image, flat))
          << to_string(schedule) << ' ' << to_string(mode);
    }
  }
}

TEST_P(OnRanks, HeadGroupsChangeNoBit) {
  GenerateOptions options = small_image();
  options.schedule = Schedule::flat;
  const at::Tensor flat = generate_on(GetParam(), options).image;
  const std::int64_t most = (5 + GetParam() - 1) / GetParam();  // heads of a rank
  for (options.head_groups = 1; options.head_groups <= most; ++options.head_groups) {
    for (const Schedule schedule : {Schedule::v_first, Schedule::pipelined}) {
      options.schedule = schedule;
      EXPECT_TRUE(at::equal(generate_on(GetParam(), options).image, flat))
          << to_string(schedule) << " in " << options.head_groups << " groups";
    }
  }
}

TEST_P(OnRanks, SameImageAsOneRank) {
  const GenerateOptions options = small_image();
  EXPECT_LT(relative_difference(generate_on(GetParam(), options).image, generate_on(1, options).image), 1e-5);
}

// 7 and 12: more ranks than heads.
INSTANTIATE_TEST_SUITE_P(Ranks, OnRanks, testing::Values(1, 2, 3, 5, 7, 12));

TEST(Exactness, FollowsTheModelsOwnForward) {
  GenerateOptions options = small_image();
  options.guidance = 1.0;
  options.sampler.steps = 1;
  const LoadedModel model = test::small_model();
  const PixelDit network(pixel_dit_config(*model.config.network), model.weights);
  const at::Tensor noise = seeded_noise(options.seed, 2, 12, 52).unsqueeze(0);
  const at::NoGradGuard no_grad;
  const at::Tensor velocity = network.forward(noise, at::ones({1}), at::full({1}, 1, at::kLong));
  EXPECT_LT(relative_difference(generate_on(3, options).image, (noise - velocity)[0]), 1e-5);
}

TEST(Exactness, GuidanceOnHalvesOfTheRanks) {
  GenerateOptions options = small_image();
  options.guidance_mode = GuidanceMode::parallel;
  for (const int ranks : {2, 6}) {
    const at::Tensor parallel = generate_on(ranks, options).image;
    GenerateOptions together = options;
    together.guidance_mode = GuidanceMode::batched;
    EXPECT_TRUE(at::equal(parallel, generate_on(ranks / 2, together).image)) << ranks << " ranks";
  }
}

TEST(Exactness, GuidanceLabelAndSeedMatter) {
  const GenerateOptions options = small_image();
  const at::Tensor image = generate_on(2, options).image;
  GenerateOptions other = options;
  other.guidance = 1.0;
  EXPECT_GT(relative_difference(generate_on(2, other).image, image), 1e-4);
  other = options;
  other.label = 2;
  EXPECT_GT(relative_difference(generate_on(2, other).image, image), 1e-4);
  other = options;
  other.seed = 12;
  EXPECT_GT(relative_difference(generate_on(2, other).image, image), 1e-2);
}

TEST(Exactness, EverySamplerRunsOnRanks) {
  GenerateOptions options = small_image();
  for (const SamplerKind kind :
       {SamplerKind::flow_match_euler, SamplerKind::ddim, SamplerKind::dpm_solver_2m}) {
    options.sampler.kind = kind;
    const at::Tensor alone = generate_on(1, options).image;
    ASSERT_TRUE(std::isfinite(alone.abs().max().item<double>())) << to_string(kind);
    EXPECT_LT(relative_difference(generate_on(3, options).image, alone), 1e-5) << to_string(kind);
  }
}

TEST(Exactness, MoreRanksThanTokens) {
  GenerateOptions options = small_image();
  for (const auto& [height, width] : {std::pair{4, 4}, std::pair{8, 12}}) {
    options.height = height;
    options.width = width;
    const at::Tensor alone = generate_on(1, options).image;
    for (const Schedule schedule : {Schedule::flat, Schedule::pipelined}) {
      options.schedule = schedule;
      EXPECT_LT(relative_difference(generate_on(12, options).image, alone), 1e-5) << width;
    }
  }
}

TEST(Exactness, HalfPrecisionStaysNear) {
  GenerateOptions options = small_image();
  const at::Tensor exact = generate_on(2, options).image;
  options.dtype = at::kBFloat16;
  EXPECT_LT(relative_difference(generate_on(2, options).image, exact), 0.05);
  options.dtype = at::kDouble;
  EXPECT_LT(relative_difference(generate_on(2, options).image, exact), 1e-5);
}

TEST(Exactness, SlowLinksChangeNoBit) {  // exchanges that take their time are waited for
  GenerateOptions options = small_image();
  LocalGroupOptions group;
  group.ranks = 4;
  group.ranks_per_node = 2;
  const at::Tensor expected = generate_on(group, options).image;
  group.bytes_per_second = 5e6;
  for (const Schedule schedule : {Schedule::v_first, Schedule::pipelined}) {
    options.schedule = schedule;
    EXPECT_TRUE(at::equal(generate_on(group, options).image, expected)) << to_string(schedule);
  }
}

TEST(Exactness, OneEngineMakesManyImages) {
  for (const GuidanceMode mode : {GuidanceMode::sequential, GuidanceMode::parallel}) {
    GenerateOptions options = small_image();
    options.schedule = Schedule::pipelined;
    options.guidance_mode = mode;
    const at::Tensor expected = generate_on(4, options).image;
    LocalGroupOptions group;
    group.ranks = 4;
    run_local_ranks(group, [&](ExchangeContext& context) {
      Engine engine(test::small_model(), &context);
      for (int image = 0; image < 3; ++image) {
        const GenerateResult result = engine.generate(options);
        EXPECT_TRUE(context.rank() != 0 || at::equal(result.image, expected));
        EXPECT_EQ(result.image.defined(), context.rank() == 0);
      }
    });
  }
}

TEST(Exactness, LayersAreTheModels) {
  GenerateOptions options = small_image();
  options.record_layers = true;
  const GenerateResult alone = generate_on(1, options);
  const GenerateResult spread = generate_on(3, options);
  ASSERT_EQ(alone.layers.size(), 2U);
  ASSERT_EQ(spread.layers.size(), 2U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    ASSERT_EQ(spread.layers[layer].sizes(), (at::IntArrayRef{39, 20}));
    EXPECT_LT(relative_difference(spread.layers[layer], alone.layers[layer]), 1e-5);
  }
  EXPECT_GT(relative_difference(alone.layers[0], alone.layers[1]), 1e-3);
}

TEST(Report, CountsBytesByLevel) {
  GenerateOptions options = small_image();
  options.guidance = 1.0;
  LocalGroupOptions group;
  group.ranks = 4;
  group.ranks_per_node = 2;
  const GenerateResult result = generate_on(group, options);
  ASSERT_EQ(result.report.steps.size(), 4U);
  for (const StepReport& step : result.report.steps) {
    // Rank 0 of 4 has 9 of 39 tokens and 1 of 5 heads. To a rank with n heads go 3 x 9 x n x 4 floats of Q, K
    // and V, and of the output its own head's for that rank's tokens (9, 10, 10, 10): 2 layers.
    const std::uint64_t row = 4 * sizeof(float);
    EXPECT_EQ(step.fast_bytes, 2 * row * (3 * 9 * 1 + 10));
    EXPECT_EQ(step.slow_bytes, 2 * row * (3 * 9 * (1 + 2) + 10 + 10));
    EXPECT_GT(step.seconds, 0);
    EXPECT_GE(step.seconds, step.compute_seconds);
    EXPECT_EQ(step.active_fraction, 1);
  }
  EXPECT_GT(result.report.seconds, 0);
  EXPECT_FALSE(result.trace.spans.empty());
  EXPECT_EQ(verify(result.graph), "");
}

TEST(Report, ProgressIsToldOnceAStepOnRankZero) {
  const GenerateOptions options = small_image();
  std::vector<int> told;
  LocalGroupOptions group;
  group.ranks = 3;
  run_local_ranks(group, [&](ExchangeContext& context) {
    static_cast<void>(
        Engine(test::small_model(), &context).generate(options, [&](int step, int steps, const StepReport&) {
          EXPECT_EQ(context.rank(), 0);
          EXPECT_EQ(steps, 4);
          told.push_back(step);
        }));
  });
  EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3}));
}

TEST(Report, FailureOnOneRankEndsAll) {
  LocalGroupOptions group;
  group.ranks = 3;
  const auto run = [&] {
    run_local_ranks(group, [&](ExchangeContext& context) {
      static_cast<void>(
          Engine(test::small_model(), &context).generate(small_image(), [](int, int, const StepReport&) {
            throw std::runtime_error("the terminal is gone");
          }));
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
}

TEST(Measure, AllRanksGetTheSameEstimates) {
  GenerateOptions options = small_image();
  VMajorPolicy rows;
  rows.warmup_steps = 1;
  options.wire = wire_policy_of(rows, options.sampler.steps);
  LocalGroupOptions group;
  group.ranks = 3;
  group.ranks_per_node = 1;
  std::vector<std::vector<StepKind>> measured(3);
  run_local_ranks(group, [&](ExchangeContext& context) {
    measured[static_cast<std::size_t>(context.rank())] =
        Engine(test::small_model(), &context).measure(options);
  });
  const std::vector<StepKind>& kinds = measured[0];
  ASSERT_GE(kinds.size(), 2U);
  const StepGraph& full = kinds[0].graph;  // the first step brings everything
  double shares = 0, travels = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    shares += kinds[kind].share;
    for (std::size_t id = 0; id < full.steps.size(); ++id) {
      const Step& step = kinds[kind].graph.steps[id];
      EXPECT_GE(step.seconds, 0) << step_name(step);
      EXPECT_EQ(measured[1][kind].graph.steps[id].seconds, step.seconds);
      EXPECT_EQ(measured[2][kind].graph.steps[id].seconds, step.seconds);
      const bool scatter = is_exchange(step.role) && step.role != StepRole::gather_output;
      if (!scatter) {
        EXPECT_NEAR(step.seconds, full.steps[id].seconds, 1e-12) << step_name(step);
      } else {
        EXPECT_LE(step.seconds, full.steps[id].seconds) << step_name(step);
      }
    }
    const auto scattered = std::find_if(full.steps.begin(), full.steps.end(), [](const Step& step) {
      return step.role == StepRole::scatter_value;
    });
    const auto id = static_cast<std::size_t>(scattered - full.steps.begin());
    travels += kinds[kind].share * kinds[kind].graph.steps[id].seconds / full.steps[id].seconds;
  }
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_NEAR(travels, 0.5, 0.05);  // all rows, then two thirds, one third, none; and masks
}

TEST(Measure, TheGraphIsTheSameForEverySchedule) {  // or times of one would be wrong for another
  GenerateOptions options = small_image();
  options.guidance_mode = GuidanceMode::sequential;
  Engine engine(test::small_model(), nullptr);
  options.schedule = Schedule::flat;
  const StepGraph flat = engine.measure(options).front().graph;
  options.schedule = Schedule::pipelined;
  const StepGraph pipelined = engine.measure(options).front().graph;
  ASSERT_EQ(flat.steps.size(), pipelined.steps.size());
  for (std::size_t id = 0; id < flat.steps.size(); ++id) {
    EXPECT_EQ(step_name(flat.steps[id]), step_name(pipelined.steps[id]));
  }
}

}  // namespace
}  // namespace dit
