#include "step_mix.hpp"

#include "wire/block_codec.hpp"

namespace dit::tool {

namespace {

double share_of(const WirePlan& plan, WireTensor tensor, int step, WireElement element) {
  double bits = 0;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    for (const int branch : {0, 1}) {
      bits += bits_of(plan.mode(tensor, kFarLevel, layer, step, branch), element) / 2;
    }
  }
  return bits / (plan.shape().layers * 8.0 * static_cast<double>(bytes_of(element)));
}

}  // namespace

StepMix mix_of(const WirePolicy& policy, int layers, int steps, WireElement element) {
  const WirePlan plan = far_plan(policy, layers, steps);
  struct Sum {
    int steps = 0;
    WireShares shares = {0, 0};
    [[nodiscard]] WireShares mean() const {
      return steps > 0 ? WireShares{shares.scatter / steps, shares.output / steps} : WireShares{};
    }
  } full, selective;
  for (int step = 0; step < steps; ++step) {
    Sum& sum = plan.active_fraction(step) < 1 ? selective : full;
    ++sum.steps;
    for (const WireTensor tensor : {WireTensor::query, WireTensor::key, WireTensor::value}) {
      sum.shares.scatter += share_of(plan, tensor, step, element) / 3;
    }
    sum.shares.output += share_of(plan, WireTensor::output, step, element);
  }
  return {static_cast<double>(full.steps) / steps, full.mean(), selective.mean()};
}

Prediction mixed(const Prediction& a, const Prediction& b, double share) {
  const auto mix = [&](double x, double y) { return share * x + (1 - share) * y; };
  return {mix(a.seconds, b.seconds), mix(a.compute_seconds, b.compute_seconds),
          mix(a.exchange_seconds, b.exchange_seconds), mix(a.exposed_seconds, b.exposed_seconds)};
}

}  // namespace dit::tool
