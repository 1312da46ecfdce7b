#include "gray_scott.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "training_fixture.hpp"

namespace dit::gray_scott {
namespace {

using testing::HasSubstr;

GrayScottOptions small(std::int64_t size, std::int64_t steps) {
  GrayScottOptions options;
  options.size = size;
  options.steps = steps;
  options.seed = 4;
  return options;
}

const GrayScottRegime& spots() {
  return gray_scott_regimes()[0];
}

/// A step as the equations are written, in double.
at::Tensor plain_step(const at::Tensor& field, const GrayScottRegime& regime, const GrayScottOptions& o) {
  const std::int64_t n = o.size;
  const at::Tensor old = field.to(at::kDouble).contiguous();
  at::Tensor next = old.clone();
  const auto at = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return old.data_ptr<double>()[(c * n + (y + n) % n) * n + (x + n) % n];
  };
  const auto laplacian = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return 0.2 * (at(c, y - 1, x) + at(c, y + 1, x) + at(c, y, x - 1) + at(c, y, x + 1)) +
           0.05 * (at(c, y - 1, x - 1) + at(c, y - 1, x + 1) + at(c, y + 1, x - 1) + at(c, y + 1, x + 1)) -
           at(c, y, x);
  };
  for (std::int64_t y = 0; y < n; ++y) {
    for (std::int64_t x = 0; x < n; ++x) {
      const double u = at(0, y, x);
      const double v = at(1, y, x);
      double* out = next.data_ptr<double>();
      out[y * n + x] += o.dt * (o.diffusion_u * laplacian(0, y, x) - u * v * v + regime.feed * (1 - u));
      out[(n + y) * n + x] +=
          o.dt * (o.diffusion_v * laplacian(1, y, x) + u * v * v - (regime.feed + regime.kill) * v);
    }
  }
  return next;
}

TEST(GrayScott, StepFollowsTheEquations) {
  GrayScottOptions options = small(10, 0);
  options.dt = 0.9;
  const at::Tensor start = simulate_gray_scott(spots(), 1, options, at::kCPU)[0];
  at::Tensor expected = start.to(at::kDouble);
  for (int step = 0; step < 3; ++step) {
    expected = plain_step(expected, spots(), options);
  }
  options.steps = 3;
  const at::Tensor got = simulate_gray_scott(spots(), 1, options, at::kCPU)[0];
  EXPECT_GT((expected - start).abs().max().item<double>(), 1e-3);
  EXPECT_LT((expected - got).abs().max().item<double>(), 1e-6);
}

TEST(GrayScott, FieldIsTheSameInAnyBatch) {
  const GrayScottOptions options = small(24, 40);
  const at::Tensor three = simulate_gray_scott(spots(), 3, options, at::kCPU);
  EXPECT_TRUE(at::equal(three.narrow(0, 0, 1), simulate_gray_scott(spots(), 1, options, at::kCPU)));
  EXPECT_TRUE(at::equal(three.narrow(0, 0, 2), simulate_gray_scott(spots(), 2, options, at::kCPU)));
}

TEST(GrayScott, StartsDifferBySeedRegimeAndIndex) {
  GrayScottOptions options = small(16, 0);
  const at::Tensor two = simulate_gray_scott(spots(), 2, options, at::kCPU);
  EXPECT_FALSE(at::equal(two[0], two[1]));
  EXPECT_FALSE(at::equal(two, simulate_gray_scott(gray_scott_regimes()[1], 2, options, at::kCPU)));
  options.seed = 5;
  EXPECT_FALSE(at::equal(two, simulate_gray_scott(spots(), 2, options, at::kCPU)));
}

TEST(GrayScott, WithoutFeedAndKillNothingIsLost) {
  const GrayScottRegime closed{"closed", 0, 0};
  const double before =
      simulate_gray_scott(closed, 1, small(32, 0), at::kCPU).to(at::kDouble).sum().item<double>();
  const double after =
      simulate_gray_scott(closed, 1, small(32, 200), at::kCPU).to(at::kDouble).sum().item<double>();
  EXPECT_NEAR(after / before, 1.0, 1e-5);
}

TEST(GrayScott, TwelveRegimesOfTheirOwnName) {
  std::set<std::string> names;
  for (const GrayScottRegime& regime : gray_scott_regimes()) {
    names.insert(regime.name);
  }
  EXPECT_EQ(names.size(), 12U);
  EXPECT_TRUE(names.count("spots"));
}

TEST(GrayScott, EveryRegimeMakesAPattern) {
  for (const GrayScottRegime& regime : gray_scott_regimes()) {
    const at::Tensor field = simulate_gray_scott(regime, 1, small(64, 2500), at::kCPU)[0];
    EXPECT_GT(field[1].std().item<double>(), 0.03) << regime.name;
    EXPECT_GE(field.min().item<double>(), 0.0) << regime.name;
    EXPECT_LE(field.max().item<double>(), 1.0) << regime.name;
  }
}

TEST(GrayScott, MisuseNamesWhatIsWrong) {
  const auto refusal = [](std::int64_t count, GrayScottOptions options) {
    return misuse_of([&] { (void)simulate_gray_scott(spots(), count, options, at::kCPU); });
  };
  EXPECT_EQ(refusal(0, small(16, 1)), "Gray-Scott count = 0: expected at least 1 field");
  EXPECT_EQ(refusal(1, small(7, 1)), "Gray-Scott size = 7: expected 8 to 4096 pixels");
  EXPECT_EQ(refusal(1, small(16, -1)), "Gray-Scott steps = -1: expected 0 or more");
  GrayScottOptions options = small(16, 1);
  options.dt = 1.5;
  EXPECT_THAT(refusal(1, options), HasSubstr("dt = 1.5"));
  options = small(16, 1);
  options.diffusion_u = std::nan("");
  EXPECT_THAT(refusal(1, options), HasSubstr("diffusion = nan"));
}

}  // namespace
}  // namespace dit::gray_scott
