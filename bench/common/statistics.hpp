/// @file
/// Statistics of timings. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tapa::bench {

/// What a row says about one contender's times. Same unit as the samples.
struct Summary {
  double median = 0;
  double mean = 0;
  double min = 0;
  double max = 0;
  double low = 0;         ///< first quartile
  double high = 0;        ///< third quartile
  std::size_t count = 0;  ///< samples

  /// Distance of the quartiles as a fraction of the median; 0 when the median is 0.
  [[nodiscard]] double spread() const { return median > 0 ? (high - low) / median : 0; }
};

/// The q-quantile (0 <= q <= 1) of ascending samples, linear between neighbours (Hyndman and Fan 1996, type
/// 7). Precondition: not empty.
[[nodiscard]] double quantile(std::span<const double> ascending, double q);

/// All zero when there are no samples.
[[nodiscard]] Summary summarize(std::vector<double> samples);

/// Overlap of communication and computation as the OSU micro-benchmarks define it, in percent:
/// max(0, 100 - 100 * (overall - compute) / communication), where `compute` excludes the time spent in
/// MPI_Test.
[[nodiscard]] double overlap_percent(double overall, double compute, double communication);

}  // namespace tapa::bench
