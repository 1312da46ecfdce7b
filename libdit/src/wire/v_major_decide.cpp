// What a step does: full, or which fraction stays.
#include <stdexcept>

#include "wire/v_major.hpp"

namespace dit {
namespace {

void require_steps(const VMajorPolicy& policy, int step, int steps) {
  if (steps < 1) {
    throw std::invalid_argument("steps = " + std::to_string(steps) + ": expected at least 1");
  }
  if (step < 0 || step >= steps) {
    throw std::invalid_argument("step = " + std::to_string(step) + ": expected 0 to " +
                                std::to_string(steps - 1));
  }
  const RatioSchedule& ratio = policy.ratio;
  if (ratio.kind == RatioSchedule::Kind::list && ratio.values.size() != static_cast<std::size_t>(steps)) {
    throw std::invalid_argument("v-major: ratio has " + std::to_string(ratio.values.size()) +
                                " numbers: expected one for each of " + std::to_string(steps) + " steps");
  }
}

// Only of steps after the warm-up.
double ratio_of(const VMajorPolicy& policy, int step, int steps) {
  switch (policy.ratio.kind) {
    case RatioSchedule::Kind::constant:
      return policy.ratio.value;
    case RatioSchedule::Kind::list:
      return policy.ratio.values[static_cast<std::size_t>(step)];
    case RatioSchedule::Kind::linear:
      break;
  }
  return static_cast<double>(step + 1 - policy.warmup_steps) / (steps - policy.warmup_steps);
}

}  // namespace

StepDecision decide_step(const VMajorPolicy& policy, int step, int steps) {
  require_steps(policy, step, steps);
  const bool refresh = policy.refresh_every > 0 && (step + 1) % policy.refresh_every == 0;
  if (step == 0 || step < policy.warmup_steps || refresh) {
    return {};
  }
  const double ratio = ratio_of(policy, step, steps);
  return {ratio == 0, ratio};
}

double mean_active_fraction(const VMajorPolicy& policy, int steps) {
  double active = 0;
  for (int step = 0; step < steps || step == 0; ++step) {
    active += 1 - decide_step(policy, step, steps).ratio;
  }
  return active / steps;
}

}  // namespace dit
