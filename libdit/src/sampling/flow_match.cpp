#include <cmath>
#include <utility>

#include "sampling/steps_in_order.hpp"

namespace dit {
namespace {

constexpr double kTrainingSteps = 1000;

double shifted(double sigma, double shift) {
  return shift * sigma / (1 + (shift - 1) * sigma);
}

/// The exponential shift's mu grows linearly with the number of image tokens.
double dynamic_mu(const SamplerOptions& options) {
  const double slope = (options.max_shift - options.base_shift) /
                       static_cast<double>(options.max_tokens - options.base_tokens);
  return options.base_shift + slope * static_cast<double>(options.image_tokens - options.base_tokens);
}

/// e^mu / (e^mu + 1/sigma - 1) is a static shift by e^mu.
double shift_of(const SamplerOptions& options) {
  return options.dynamic_shift ? std::exp(dynamic_mu(options)) : options.shift;
}

void stretch_to_terminal(std::vector<double>& sigmas, double terminal) {
  const double scale = (1 - sigmas.back()) / (1 - terminal);
  for (double& sigma : sigmas) {
    sigma = 1 - (1 - sigma) / scale;
  }
}

class FlowMatchEuler : public StepsInOrder {
 public:
  explicit FlowMatchEuler(std::vector<double> sigmas) : sigmas_(std::move(sigmas)) {}
  [[nodiscard]] int steps() const override { return static_cast<int>(sigmas_.size()) - 1; }
  [[nodiscard]] double time(int step) const override { return sigmas_[index(step)]; }
  [[nodiscard]] FlowTime flow_time(int step) const override { return {time(step), 1}; }
  [[nodiscard]] ModelOutput output() const override { return ModelOutput::velocity; }

 protected:
  [[nodiscard]] at::Tensor next(int step, const at::Tensor& sample, const at::Tensor& velocity) override {
    const std::size_t i = index(step);
    return sample + velocity * (sigmas_[i + 1] - sigmas_[i]);
  }

 private:
  std::vector<double> sigmas_;
};

}  // namespace

std::vector<double> flow_match_sigmas(const SamplerOptions& options) {
  check(options);
  const double shift = shift_of(options);
  double last = 1.0 / options.steps;
  if (options.diffusers_sigma_min) {  // there the static shift is already in the smallest sigma, and comes
                                      // again below
    last = options.dynamic_shift ? 1 / kTrainingSteps : shifted(1 / kTrainingSteps, shift);
  }
  std::vector<double> sigmas;
  for (int i = 0; i < options.steps; ++i) {
    const double part = options.steps == 1 ? 0 : static_cast<double>(i) / (options.steps - 1);
    sigmas.push_back(shifted(1 + part * (last - 1), shift));
  }
  if (options.shift_terminal > 0) {
    stretch_to_terminal(sigmas, options.shift_terminal);
  }
  sigmas.push_back(0);
  return sigmas;
}

std::unique_ptr<Sampler> make_flow_match_euler(const SamplerOptions& options) {
  return std::make_unique<FlowMatchEuler>(flow_match_sigmas(options));
}

}  // namespace dit
