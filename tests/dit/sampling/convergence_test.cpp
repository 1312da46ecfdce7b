// A velocity model that knows the truth: each pixel of the images is Gaussian (or a point), so its velocity
// has a formula, and so has the image that belongs to a noise. All samplers must come to it, at their order.
#include <gtest/gtest.h>

#include <cmath>

#include "sampling/sampler.hpp"

namespace dit {
namespace {

struct Truth {
  double mean = 0.7;
  double deviation = 0.4;

  /// At flow time t, x = (1 - t) image + t noise.
  [[nodiscard]] double spread(double t) const { return std::hypot((1 - t) * deviation, t); }
  [[nodiscard]] at::Tensor velocity(const at::Tensor& x, double t) const {
    const at::Tensor centred = x - (1 - t) * mean;
    const double variance = spread(t) * spread(t);
    return centred * ((t - (1 - t) * deviation * deviation) / variance) - mean;
  }
  /// The flow carries z to the place that is as many deviations from the mean.
  [[nodiscard]] at::Tensor at_time(const at::Tensor& z, double t) const {
    return (1 - t) * mean + z * spread(t);
  }
};

at::Tensor normals() {
  return at::tensor({-1.3, 0.2, 0.9, 2.1}, at::kDouble);
}

/// Samples until `left` steps are left, and returns the largest error.
double error(SamplerKind kind, int steps, const Truth& truth, int left = 0) {
  SamplerOptions options;
  options.kind = kind;
  options.steps = steps;
  const auto sampler = make_sampler(options);
  const FlowTime first = sampler->flow_time(0);
  at::Tensor x = truth.at_time(normals(), first.t) / first.input_scale;
  for (int step = 0; step < steps - left; ++step) {
    const FlowTime time = sampler->flow_time(step);
    const at::Tensor flow_sample = x * time.input_scale;
    const at::Tensor velocity = truth.velocity(flow_sample, time.t);
    x = sampler->advance(step, x, answer_from_velocity(*sampler, step, flow_sample, velocity));
  }
  const FlowTime end = left == 0 ? FlowTime{} : sampler->flow_time(steps - left);
  return (x * (left == 0 ? 1 : end.input_scale) - truth.at_time(normals(), end.t)).abs().max().item<double>();
}

TEST(Convergence, APointIsHitAtOnce) {
  const Truth point{-0.3, 0};
  for (const auto kind : {SamplerKind::flow_match_euler, SamplerKind::ddim, SamplerKind::dpm_solver_2m}) {
    for (const int steps : {1, 2, 7}) {
      EXPECT_LT(error(kind, steps, point), 1e-12) << to_string(kind) << ", " << steps;
    }
  }
}

TEST(Convergence, EulerIsOfFirstOrder) {
  const Truth truth;
  const double coarse = error(SamplerKind::flow_match_euler, 100, truth);
  EXPECT_LT(coarse, 0.03);
  EXPECT_NEAR(coarse / error(SamplerKind::flow_match_euler, 200, truth), 2, 0.2);
}

TEST(Convergence, DdimIsOfFirstOrder) {
  const Truth truth;
  const double coarse = error(SamplerKind::ddim, 25, truth);
  EXPECT_LT(coarse, 0.2);
  EXPECT_NEAR(coarse / error(SamplerKind::ddim, 50, truth), 2, 0.3);
}

TEST(Convergence, DpmSolverIsOfSecondOrder) {
  const Truth truth;
  // Before the last step, which is of first order over what noise is left.
  const double coarse = error(SamplerKind::dpm_solver_2m, 37, truth, 1);
  EXPECT_NEAR(coarse / error(SamplerKind::dpm_solver_2m, 111, truth, 3), 9, 3);
  EXPECT_LT(coarse, error(SamplerKind::ddim, 37, truth, 1) / 4);
}

TEST(FlowConversion, TimesAndMixesAgree) {
  for (const double alpha_bar : {0.9999, 0.5, 0.0785872, 4e-5}) {
    const FlowTime time = flow_time_of(alpha_bar);
    EXPECT_NEAR((1 - time.t) / time.input_scale, std::sqrt(alpha_bar), 1e-12);
    EXPECT_NEAR(time.t / time.input_scale, std::sqrt(1 - alpha_bar), 1e-12);
  }
}

TEST(FlowConversion, EpsilonIsTheNoise) {
  const at::Tensor image = at::tensor({0.5, -2.0}, at::kDouble);
  const at::Tensor noise = at::tensor({1.5, 0.25}, at::kDouble);
  for (const double t : {0.1, 0.5, 0.99}) {
    const at::Tensor x = image * (1 - t) + noise * t;
    const at::Tensor epsilon = epsilon_from_velocity(x, noise - image, t);
    EXPECT_LT((epsilon - noise).abs().max().item<double>(), 1e-12);
    EXPECT_LT((velocity_from_epsilon(x, epsilon, t) - (noise - image)).abs().max().item<double>(), 1e-10);
  }
}

}  // namespace
}  // namespace dit
