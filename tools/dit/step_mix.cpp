#include "step_mix.hpp"

namespace dit::tool {

StepMix mix_of(const VMajorPolicy& policy, int steps) {
  int full = 0;
  double active = 0;
  for (int step = 0; step < steps; ++step) {
    const StepDecision decision = decide_step(policy, step, steps);
    full += decision.full ? 1 : 0;
    active += decision.full ? 0 : 1 - decision.ratio;
  }
  return {static_cast<double>(full) / steps, full < steps ? active / (steps - full) : 1};
}

Prediction mixed(const Prediction& a, const Prediction& b, double share) {
  const auto mix = [&](double x, double y) { return share * x + (1 - share) * y; };
  return {mix(a.seconds, b.seconds), mix(a.compute_seconds, b.compute_seconds),
          mix(a.exchange_seconds, b.exchange_seconds), mix(a.exposed_seconds, b.exposed_seconds)};
}

}  // namespace dit::tool
