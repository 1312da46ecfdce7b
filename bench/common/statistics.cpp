#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tapa::bench {

double quantile(std::span<const double> ascending, double q) {
  const double at = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (at - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) {
    return {};
  }
  std::sort(samples.begin(), samples.end());
  Summary s;
  s.count = samples.size();
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(s.count);
  s.median = quantile(samples, 0.5);
  s.low = quantile(samples, 0.25);
  s.high = quantile(samples, 0.75);
  s.min = samples.front();
  s.max = samples.back();
  return s;
}

double overlap_percent(double overall, double compute, double communication) {
  return communication > 0 ? std::max(0.0, 100 - 100 * (overall - compute) / communication) : 0;
}

}  // namespace tapa::bench
