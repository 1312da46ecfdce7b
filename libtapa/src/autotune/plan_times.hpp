/// @file
/// How long calls of competing plans have taken. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plan/choose.hpp"
#include "plan/median.hpp"

namespace tapa {

/// Seconds of calls, as the ranks have agreed on them, by index of the plan.
class PlanTimes {
 public:
  explicit PlanTimes(std::vector<Choice> choices) : choices_(std::move(choices)), plans_(choices_.size()) {}

  [[nodiscard]] const std::vector<Choice>& choices() const { return choices_; }
  [[nodiscard]] const std::vector<double>& of(std::size_t plan) const { return plans_[plan].seconds; }
  void add(std::size_t plan, double seconds) { plans_[plan].seconds.push_back(seconds); }
  /// What is known of a plan otherwise; `calls`: more than there are times, or 0.
  void set(std::size_t plan, std::vector<double> seconds, int calls = 0) {
    plans_[plan] = {std::move(seconds), static_cast<std::size_t>(calls)};
  }

  /// Calls of a plan.
  [[nodiscard]] std::size_t calls_of(std::size_t plan) const {
    return std::max(plans_[plan].calls, of(plan).size());
  }
  /// Median without the first where there are more; 0 when it was never called.
  [[nodiscard]] double median(std::size_t plan) const {
    const std::vector<double>& times = of(plan);
    if (times.empty()) return 0;
    return tapa::median({times.begin() + (times.size() > 1 ? 1 : 0), times.end()});
  }
  /// The shortest, 0 when it was never called.
  [[nodiscard]] double least(std::size_t plan) const {
    return of(plan).empty() ? 0 : *std::ranges::min_element(of(plan));
  }

 private:
  struct Plan {
    std::vector<double> seconds;
    std::size_t calls = 0;  // of an earlier run
  };
  std::vector<Choice> choices_;
  std::vector<Plan> plans_;
};

}  // namespace tapa
