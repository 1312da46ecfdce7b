#include <cmath>

#include "sampling/sampler.hpp"

namespace dit {

FlowTime flow_time_of(double alpha_bar) {
  const double alpha = std::sqrt(alpha_bar);
  const double s = std::sqrt(1 - alpha_bar);
  return {s / (alpha + s), 1 / (alpha + s)};
}

// x = (1 - t) image + t noise and v = noise - image, so noise = x + (1 - t) v.
at::Tensor epsilon_from_velocity(const at::Tensor& flow_sample, const at::Tensor& velocity, double t) {
  return flow_sample + velocity * (1 - t);
}

at::Tensor velocity_from_epsilon(const at::Tensor& flow_sample, const at::Tensor& epsilon, double t) {
  return (epsilon - flow_sample) / (1 - t);
}

at::Tensor answer_from_velocity(const Sampler& sampler, int step, const at::Tensor& flow_sample,
                                const at::Tensor& velocity) {
  return sampler.output() == ModelOutput::velocity
             ? velocity
             : epsilon_from_velocity(flow_sample, velocity, sampler.flow_time(step).t);
}

at::Tensor guided(const at::Tensor& conditional, const at::Tensor& unconditional, double scale) {
  return unconditional + (conditional - unconditional) * scale;
}

}  // namespace dit
