#include "predict/step_mix.hpp"

#include "wire/block_codec.hpp"

namespace dit {

namespace {

double share_of(const WirePlan& plan, AttentionTensor tensor, int step, WireElement element) {
  const WirePlan::Shape& shape = plan.shape();
  double bits = 0;
  int modes = 0;
  for (int level = shape.slow_level; level < static_cast<int>(shape.levels.size()); ++level) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (const int branch : {0, 1}) {
        bits += bits_of(plan.mode(tensor, level, layer, step, branch), element);
        ++modes;
      }
    }
  }
  return modes == 0 ? 1 : bits / (modes * 8.0 * static_cast<double>(bytes_of(element)));
}

}  // namespace

TensorShares tensor_shares(const WirePlan& plan, int step, WireElement element) {
  TensorShares shares{};
  for (int tensor = 0; tensor < kAttentionTensors; ++tensor) {
    shares[static_cast<std::size_t>(tensor)] =
        share_of(plan, static_cast<AttentionTensor>(tensor), step, element);
  }
  return shares;
}

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
    const auto [query, key, value, output] = tensor_shares(plan, step, element);
    sum.shares.scatter += (query + key + value) / 3;
    sum.shares.output += output;
  }
  return {static_cast<double>(full.steps) / steps, full.mean(), selective.mean()};
}

Prediction mixed(const Prediction& a, const Prediction& b, double share) {
  const auto mix = [&](double x, double y) { return share * x + (1 - share) * y; };
  return {mix(a.seconds, b.seconds), mix(a.compute_seconds, b.compute_seconds),
          mix(a.exchange_seconds, b.exchange_seconds), mix(a.exposed_seconds, b.exposed_seconds)};
}

}  // namespace dit
