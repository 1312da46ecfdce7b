#include "optimizer.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

at::Tensor as_leaf(at::Tensor flat) {
  return flat.detach().to(at::kFloat).clone().requires_grad_(true);
}

}  // namespace

TrainedWeights::TrainedWeights(at::Tensor flat, double average_decay)
    : flat_(as_leaf(std::move(flat))),
      average_(flat_.detach().clone()),
      average_decay_(average_decay),
      adam_(std::vector<at::Tensor>{flat_},
            torch::optim::AdamWOptions(0.0).betas({0.9, 0.99}).weight_decay(0.01)) {}

void TrainedWeights::step(double learning_rate, double clip) {
  {
    const at::NoGradGuard no_grad;
    at::Tensor gradient = flat_.grad();
    gradient.mul_((clip / (gradient.norm() + 1e-6)).clamp_max(1.0));  // stays on the device
  }
  static_cast<torch::optim::AdamWOptions&>(adam_.param_groups()[0].options()).lr(learning_rate);
  adam_.step();
  flat_.mutable_grad() = at::Tensor();
  const at::NoGradGuard no_grad;
  ++steps_;
  // A young average follows closely: the first steps' weights are worth nothing.
  const double decay =
      std::min(average_decay_, static_cast<double>(1 + steps_) / static_cast<double>(10 + steps_));
  average_.lerp_(flat_, 1.0 - decay);
}

torch::optim::AdamWParamState& TrainedWeights::adam_state() const {
  if (adam_.state().empty()) {  // it is made by the first step; one of no length
    const at::Tensor kept = flat_.mutable_grad();
    flat_.mutable_grad() = at::zeros_like(flat_);
    static_cast<torch::optim::AdamWOptions&>(adam_.param_groups()[0].options()).lr(0.0);
    adam_.step();
    flat_.mutable_grad() = kept;
  }
  return static_cast<torch::optim::AdamWParamState&>(*adam_.state().begin()->second);
}

void TrainedWeights::save(const std::filesystem::path& file, const SchedulePoint& point) const {
  const torch::optim::AdamWParamState& adam = adam_state();
  const auto plain = [](const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); };
  write_safetensors(file,
                    {{"weights", plain(flat_)},
                     {"average", plain(average_)},
                     {"adam.first", plain(adam.exp_avg())},
                     {"adam.second", plain(adam.exp_avg_sq())},
                     {"steps", at::tensor({point.step, steps_, adam.step()}, at::kLong)},
                     {"progress", at::tensor({point.progress}, at::kDouble)}},
                    {{"content", "state of a training run"}});
}

SchedulePoint TrainedWeights::load(const std::filesystem::path& file) {
  const SafetensorsFile state(file);
  const auto read = [&](const char* name, at::IntArrayRef shape, at::ScalarType type) {
    if (!state.contains(name) || state.tensor(name).sizes() != shape ||
        state.tensor(name).scalar_type() != type) {
      throw std::runtime_error(file.string() + ": tensor " + name +
                               " is not that of this network's training state");
    }
    return state.tensor(name);
  };
  const at::NoGradGuard no_grad;
  torch::optim::AdamWParamState& adam = adam_state();
  flat_.copy_(read("weights", flat_.sizes(), at::kFloat));
  average_.copy_(read("average", flat_.sizes(), at::kFloat));
  adam.exp_avg().copy_(read("adam.first", flat_.sizes(), at::kFloat));
  adam.exp_avg_sq().copy_(read("adam.second", flat_.sizes(), at::kFloat));
  const at::Tensor steps = read("steps", {3}, at::kLong);
  steps_ = steps[1].item<std::int64_t>();
  adam.step(steps[2].item<std::int64_t>());
  return {steps[0].item<std::int64_t>(), read("progress", {1}, at::kDouble)[0].item<double>()};
}

}  // namespace dit::gray_scott
