#include "training_clock.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dit::gray_scott {

TrainingClock::TrainingClock(std::optional<std::int64_t> steps,
                             std::optional<std::chrono::duration<double>> limit, double begin, double end)
    : steps_(steps), limit_(limit), begin_(begin), end_(end) {}

double TrainingClock::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

double TrainingClock::part(std::int64_t step) const {
  double part = 0.0;
  if (steps_) {
    part = static_cast<double>(step) / static_cast<double>(*steps_);
  }
  if (limit_) {
    part = std::max(part, limit_->count() > 0 ? seconds() / limit_->count() : 1.0);
  }
  return std::min(part, 1.0);
}

double learning_rate(double peak, double progress, std::int64_t step, std::int64_t warmup_steps) {
  const double rise = std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1));
  return peak * rise * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace dit::gray_scott
