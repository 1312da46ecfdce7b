// The samplers of the 1000-step diffusion: DDIM (Song 2021, eta 0) and DPM-Solver++ 2M (Lu 2022, midpoint).
#include <cmath>
#include <utility>

#include "sampling/steps_in_order.hpp"

namespace dit {
namespace {

constexpr int kTrainingSteps = 1000;
constexpr double kFirstBeta = 1e-4;
constexpr double kLastBeta = 0.02;

/// x = alpha image + s noise.
struct Mix {
  double alpha = 1;
  double s = 0;
  /// Half the logarithm of the signal-to-noise ratio; infinite without noise.
  [[nodiscard]] double lambda() const { return std::log(alpha) - std::log(s); }
};

Mix mix_of(double alpha_bar) {
  return {std::sqrt(alpha_bar), std::sqrt(1 - alpha_bar)};
}

/// The mix at a time of training; before its first one there is no noise.
Mix mix_at(int t) {
  return t < 0 ? Mix{} : mix_of(alpha_bars()[static_cast<std::size_t>(t)]);
}

at::Tensor image_from(const at::Tensor& sample, const at::Tensor& epsilon, const Mix& mix) {
  return (sample - epsilon * mix.s) / mix.alpha;
}

class Diffusion : public StepsInOrder {
 public:
  /// From the noisiest to the last before the image.
  explicit Diffusion(std::vector<int> times) : times_(std::move(times)) {}
  [[nodiscard]] int steps() const override { return static_cast<int>(times_.size()); }
  [[nodiscard]] double time(int step) const override {
    return static_cast<double>(at(step)) / kTrainingSteps;
  }
  [[nodiscard]] FlowTime flow_time(int step) const override {
    return flow_time_of(alpha_bars()[static_cast<std::size_t>(at(step))]);
  }
  [[nodiscard]] ModelOutput output() const override { return ModelOutput::epsilon; }

 protected:
  [[nodiscard]] int at(int step) const { return times_[index(step)]; }

 private:
  std::vector<int> times_;
};

class Ddim : public Diffusion {
 public:
  explicit Ddim(int steps) : Diffusion(leading_times(steps)), stride_(kTrainingSteps / steps) {}

 protected:
  [[nodiscard]] at::Tensor next(int step, const at::Tensor& sample, const at::Tensor& epsilon) override {
    const Mix after = mix_at(at(step) - stride_);
    return image_from(sample, epsilon, mix_at(at(step))) * after.alpha + epsilon * after.s;
  }

 private:
  static std::vector<int> leading_times(int steps) {
    std::vector<int> times;
    for (int i = steps - 1; i >= 0; --i) {
      times.push_back(i * (kTrainingSteps / steps));
    }
    return times;
  }

  int stride_;
};

class DpmSolver2m : public Diffusion {
 public:
  explicit DpmSolver2m(int steps) : Diffusion(spread_times(steps)) {}

 protected:
  [[nodiscard]] at::Tensor next(int step, const at::Tensor& sample, const at::Tensor& epsilon) override {
    const Mix now = mix_at(at(step));
    const Mix after = step + 1 < steps() ? mix_at(at(step + 1)) : Mix{};
    const at::Tensor image = image_from(sample, epsilon, now);
    const double h = after.lambda() - now.lambda();
    const double gain = -after.alpha * std::expm1(-h);
    at::Tensor result = sample * (after.s / now.s) + image * gain;
    if (step > 0 && step + 1 < steps()) {  // the last step has no noise after it: h is infinite, first order
      const double r = (now.lambda() - mix_at(at(step - 1)).lambda()) / h;
      result = result + (image - previous_image_) * (gain / (2 * r));
    }
    previous_image_ = image;
    return result;
  }

 private:
  /// steps + 1 times from 999 to 0, rounded halves to even, without the last.
  static std::vector<int> spread_times(int steps) {
    std::vector<int> times;
    for (int i = steps; i >= 1; --i) {
      times.push_back(static_cast<int>(std::nearbyint(i * ((kTrainingSteps - 1.0) / steps))));
    }
    return times;
  }

  at::Tensor previous_image_;
};

std::vector<double> make_alpha_bars() {
  std::vector<double> result;
  double product = 1;
  for (int t = 0; t < kTrainingSteps; ++t) {
    product *= 1 - (kFirstBeta + (kLastBeta - kFirstBeta) * t / (kTrainingSteps - 1));
    result.push_back(product);
  }
  return result;
}

}  // namespace

const std::vector<double>& alpha_bars() {
  static const std::vector<double> values = make_alpha_bars();
  return values;
}

std::unique_ptr<Sampler> make_ddim(int steps) {
  return std::make_unique<Ddim>(steps);
}

std::unique_ptr<Sampler> make_dpm_solver_2m(int steps) {
  return std::make_unique<DpmSolver2m>(steps);
}

}  // namespace dit
