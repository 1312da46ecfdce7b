#include "sampling/sampler.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "../message_of.hpp"
#include "sampling/cpu_generator.hpp"
#include "sampling/steps_in_order.hpp"

namespace dit {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kDigits = 6e-7;  // golden values have six

SamplerOptions flow(int steps) {
  SamplerOptions options;
  options.steps = steps;
  return options;
}
SamplerOptions sd3(int steps) {
  SamplerOptions options = flow(steps);
  options.shift = 3;
  options.diffusers_sigma_min = true;
  return options;
}
SamplerOptions flux(std::int64_t tokens) {
  SamplerOptions options = flow(4);
  options.dynamic_shift = true;
  options.image_tokens = tokens;
  return options;
}
SamplerOptions qwen(std::int64_t tokens) {
  SamplerOptions options = flux(tokens);
  options.max_shift = 0.9;
  options.max_tokens = 8192;
  options.shift_terminal = 0.02;
  return options;
}
SamplerOptions diffusion(SamplerKind kind, int steps) {
  SamplerOptions options = flow(steps);
  options.kind = kind;
  return options;
}

auto sigmas(double a, double b, double c, double d) {
  return ElementsAre(DoubleNear(a, kDigits), DoubleNear(b, kDigits), DoubleNear(c, kDigits),
                     DoubleNear(d, kDigits), 0.0);
}

TEST(FlowMatchSigmas, Sd3) {
  EXPECT_THAT(flow_match_sigmas(sd3(4)), sigmas(1, 0.857692, 0.602151, 0.008929));
  const std::vector<double> many = flow_match_sigmas(sd3(28));
  ASSERT_EQ(many.size(), 29U);
  EXPECT_EQ(many[0], 1);
  EXPECT_NEAR(many[1], 0.987381, kDigits);
  EXPECT_NEAR(many[2], 0.974108, kDigits);
  EXPECT_NEAR(many[25], 0.199827, kDigits);
  EXPECT_NEAR(many[26], 0.110906, kDigits);
  EXPECT_NEAR(many[27], 0.008929, kDigits);
  EXPECT_EQ(many[28], 0);
}

TEST(FlowMatchSigmas, Flux) {
  EXPECT_THAT(flow_match_sigmas(flux(4096)), sigmas(1, 0.904531, 0.759511, 0.512844));
  EXPECT_THAT(flow_match_sigmas(flux(16384)), sigmas(1, 0.986986, 0.961948, 0.893917));
  EXPECT_THAT(flow_match_sigmas(flow(4)), sigmas(1, 0.75, 0.5, 0.25));  // schnell
}

TEST(FlowMatchSigmas, Qwen) {
  EXPECT_THAT(flow_match_sigmas(qwen(4096)), sigmas(1, 0.766709, 0.455614, 0.02));
  EXPECT_THAT(flow_match_sigmas(qwen(6889)), sigmas(1, 0.780980, 0.475549, 0.02));
}

TEST(FlowMatchSigmas, OneStepAndStaticShift) {
  EXPECT_THAT(flow_match_sigmas(flow(1)), ElementsAre(1.0, 0.0));
  SamplerOptions options = flow(2);
  options.shift = 3;
  EXPECT_THAT(flow_match_sigmas(options), ElementsAre(1.0, 0.75, 0.0));
  options = flux(4096);
  options.diffusers_sigma_min = true;  // nothing is shifted twice with a dynamic shift
  EXPECT_NEAR(flow_match_sigmas(options)[3], std::exp(1.15) / (std::exp(1.15) + 999), 1e-12);
}

TEST(FlowMatchEuler, MovesAlongTheVelocity) {
  const auto sampler = make_sampler(flow(4));
  EXPECT_EQ(sampler->steps(), 4);
  EXPECT_EQ(sampler->time(1), 0.75);
  EXPECT_EQ(sampler->flow_time(1).t, 0.75);
  EXPECT_EQ(sampler->flow_time(1).input_scale, 1);
  EXPECT_EQ(sampler->output(), ModelOutput::velocity);
  const at::Tensor x = sampler->advance(0, at::tensor({1.0F, 2.0F}), at::tensor({4.0F, -8.0F}));
  EXPECT_TRUE(at::equal(x, at::tensor({0.0F, 4.0F})));
}

TEST(Diffusion, AlphaBars) {
  EXPECT_NEAR(alpha_bars()[0], 0.9999, 1e-12);
  EXPECT_NEAR(alpha_bars()[499], 0.0785872, 6e-8);
  EXPECT_NEAR(alpha_bars()[999], 4.03583e-5, 6e-11);
}

std::vector<double> times(const Sampler& sampler) {
  std::vector<double> result;
  for (int step = 0; step < sampler.steps(); ++step) result.push_back(std::round(sampler.time(step) * 1000));
  return result;
}

/// A model that has nothing to do with images, from 1.5; all samples on the way.
std::vector<double> path(Sampler& sampler) {
  std::vector<double> result;
  at::Tensor x = at::full({1}, 1.5, at::kDouble);
  for (int step = 0; step < sampler.steps(); ++step) {
    x = sampler.advance(step, x, x * 0.5 + 0.1 * std::cos(3 * sampler.time(step)));
    result.push_back(x.item<double>());
  }
  return result;
}

// Values of both: the formulas of diffusers' schedulers in NumPy.
TEST(Ddim, GoldenPath) {
  const auto sampler = make_sampler(diffusion(SamplerKind::ddim, 4));
  EXPECT_THAT(times(*sampler), ElementsAre(750, 500, 250, 0));
  EXPECT_EQ(sampler->output(), ModelOutput::epsilon);
  EXPECT_THAT(path(*sampler),
              testing::Pointwise(DoubleNear(1e-8),
                                 std::vector<double>{4.611866188, 7.78927315, 7.025065922, 6.989290066}));
}

TEST(DpmSolver2m, GoldenPath) {
  const auto sampler = make_sampler(diffusion(SamplerKind::dpm_solver_2m, 5));
  EXPECT_THAT(path(*sampler),
              testing::Pointwise(DoubleNear(1e-7), std::vector<double>{5.881340792, 12.51753154, 18.75011869,
                                                                       20.50390077, 17.83075188}));
  const auto long_one = make_sampler(diffusion(SamplerKind::dpm_solver_2m, 20));
  const std::vector<double> t = times(*long_one);
  EXPECT_THAT((std::vector<double>{t[0], t[1], t[2], t[18], t[19]}), ElementsAre(999, 949, 899, 100, 50));
  EXPECT_NEAR(path(*long_one).back(), 14.36222617, 1e-7);
}

TEST(Sampler, ASecondRunIsLikeTheFirst) {
  const auto sampler = make_sampler(diffusion(SamplerKind::dpm_solver_2m, 6));
  const std::vector<double> first = path(*sampler);
  EXPECT_EQ(path(*sampler), first);
}

TEST(Sampler, KeepsTheSamplesTypeAndComputesWide) {
  const at::Tensor x = at::full({1}, 1.0).to(at::kBFloat16);
  const at::Tensor v = at::full({1}, 0.5).to(at::kBFloat16);
  const auto sampler = make_sampler(flow(3));
  const at::Tensor next = sampler->advance(0, x, v);
  EXPECT_EQ(next.scalar_type(), at::kBFloat16);
  EXPECT_EQ(next.item<float>(), at::full({1}, 1.0F - 0.5F / 3).to(at::kBFloat16).item<float>());
}

TEST(Guidance, GoesBeyondTheConditional) {
  const at::Tensor y = guided(at::tensor({2.0F}), at::tensor({1.0F}), 4.0);
  EXPECT_EQ(y.item<float>(), 5.0F);
  EXPECT_EQ(guided(at::tensor({2.0F}), at::tensor({1.0F}), 0).item<float>(), 1.0F);
}

TEST(SeededNoise, IsTorchs) {  // torch.manual_seed(0); torch.randn(4, 4): the same in 1.x and 2.x
  const at::Tensor noise = seeded_noise(0, 1, 4, 4).flatten();
  const std::vector<float> golden = {-1.1258F, -1.1524F, -0.2506F, -0.4339F, 0.8487F, 0.6920F,
                                     -0.3160F, -2.1152F, 0.3223F,  -1.2633F, 0.3500F, 0.3081F,
                                     0.1198F,  1.2377F,  1.1168F,  -0.2473F};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_NEAR(noise[static_cast<std::int64_t>(i)].item<float>(), golden[i], 6e-5) << i;
  }
}

TEST(SeededNoise, IsDecidedByTheSeedAlone) {
  at::manual_seed(1);
  const at::Tensor first = seeded_noise(7, 2, 8, 12);
  static_cast<void>(at::randn({100}));
  EXPECT_TRUE(at::equal(first, seeded_noise(7, 2, 8, 12)));
  EXPECT_FALSE(at::equal(first, seeded_noise(8, 2, 8, 12)));
  const at::Tensor large = seeded_noise(3, 2, 256, 256);
  EXPECT_NEAR(large.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(large.std().item<double>(), 1, 0.01);
  EXPECT_EQ(misuse_of([] { static_cast<void>(seeded_noise(1, 2, 0, 4)); }),
            "height = 0: expected at least 1");
}

TEST(SeededNoise, EveryBitOfTheSeedCounts) {
  constexpr std::uint64_t beyond = std::uint64_t{1} << 32;
  const auto noise = [](std::uint64_t seed) { return seeded_noise(seed, 1, 8, 8); };
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(at::equal(noise(7), noise(7 ^ (std::uint64_t{1} << bit)))) << bit;
  }
  EXPECT_TRUE(at::equal(noise(7 + beyond), noise(7 + beyond)));
  EXPECT_TRUE(at::equal(noise(beyond - 1),
                        at::randn({1, 8, 8}, at::make_generator<at::CPUGeneratorImpl>(beyond - 1))))
      << "torch's own as far as its seeds go";
}

TEST(CpuGenerator, LargeSeedsStartTheStandardEngine) {
  std::seed_seq words{7U, 3U};
  std::mt19937 engine(words);
  const at::Generator generator = cpu_generator((std::uint64_t{3} << 32) + 7);
  auto* numbers = at::check_generator<at::CPUGeneratorImpl>(generator);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(numbers->random(), engine()) << i;
}

TEST(SamplerNames, ComeBack) {
  for (const SamplerKind kind :
       {SamplerKind::flow_match_euler, SamplerKind::ddim, SamplerKind::dpm_solver_2m}) {
    EXPECT_EQ(parse_sampler(to_string(kind)), kind);
  }
  EXPECT_EQ(misuse_of([] { static_cast<void>(parse_sampler("euler")); }),
            "sampler = 'euler': expected flow-euler, ddim or dpm++2m");
}

std::string options_error(SamplerOptions options, const std::function<void(SamplerOptions&)>& change) {
  change(options);
  return misuse_of([&] { static_cast<void>(make_sampler(options)); });
}

TEST(SamplerMisuse, OptionsAreNamed) {
  using O = SamplerOptions;
  EXPECT_EQ(options_error(flow(-3), [](O&) {}), "steps = -3: expected 1 to 1000");
  EXPECT_EQ(options_error(diffusion(SamplerKind::ddim, 1001), [](O&) {}), "steps = 1001: expected 1 to 1000");
  EXPECT_EQ(options_error(diffusion(SamplerKind::dpm_solver_2m, 1000), [](O&) {}),
            "steps = 1000: expected 1 to 999");
  EXPECT_EQ(options_error(flow(4), [](O& o) { o.shift = 0; }), "shift = 0: expected a number above 0");
  EXPECT_EQ(options_error(flow(4), [](O& o) { o.shift = std::nan(""); }),
            "shift = nan: expected a number above 0");
  EXPECT_EQ(options_error(flux(64), [](O& o) { o.shift = 3; }),
            "shift = 3: expected 1 with dynamic_shift, which takes its place");
  EXPECT_EQ(options_error(flux(0), [](O&) {}), "image_tokens = 0: expected at least 1 with dynamic_shift");
  EXPECT_EQ(options_error(flux(64), [](O& o) { o.max_tokens = 256; }),
            "max_tokens = 256: expected more than base_tokens = 256, which is at least 1");
  EXPECT_EQ(options_error(flux(64), [](O& o) { o.max_shift = 100; }),
            "base_shift, max_shift = 0.5, 100: expected -20 to 20");
  EXPECT_EQ(options_error(flow(4), [](O& o) { o.shift_terminal = 1; }),
            "shift_terminal = 1: expected 0 (none) or a number below 1");
  EXPECT_EQ(options_error(flow(1), [](O& o) { o.shift_terminal = 0.02; }),
            "steps = 1: expected at least 2 with shift_terminal: the first sigma is 1");
}

TEST(SamplerMisuse, StepsComeInOrder) {
  const auto sampler = make_sampler(flow(4));
  const at::Tensor x = at::zeros({2});
  static_cast<void>(sampler->advance(0, x, x));
  EXPECT_EQ(misuse_of([&] { static_cast<void>(sampler->advance(2, x, x)); }),
            "step = 2: expected 1, as steps come in order");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(sampler->advance(4, x, x)); }), "step = 4: expected 0 to 3");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(sampler->time(-1)); }), "step = -1: expected 0 to 3");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(sampler->advance(1, x, at::zeros({3}))); }),
            "model_output = [3]: expected the sample's shape [2]");
}

}  // namespace
}  // namespace dit
