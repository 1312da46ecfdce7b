#include "api/trial.hpp"

#include <algorithm>
#include <utility>

namespace tapa {

Trial::Trial(std::vector<Choice> choices)
    : choices_(std::move(choices)), seconds_(choices_.size() * kRounds) {}

void Trial::record(double seconds) {
  const std::size_t round = calls_ / choices_.size();
  if (round > 0) seconds_[calls_ % choices_.size() * kRounds + round - 1] = seconds;
  ++calls_;
}

double Trial::median(std::size_t choice) const {
  const auto first = seconds_.begin() + static_cast<std::ptrdiff_t>(choice * kRounds);
  std::vector<double> sorted(first, first + kRounds);
  std::ranges::sort(sorted);
  return sorted[kRounds / 2];
}

std::size_t Trial::decide() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < choices_.size(); ++i) {
    if (median(i) < median(best)) best = i;
  }
  return median(best) < (1 - kGain) * median(0) ? best : 0;
}

}  // namespace tapa
