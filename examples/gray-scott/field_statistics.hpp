/// What is compared between simulated and generated fields: moments, radial power spectrum, and which
/// regime's fields a field resembles most.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace dit::gray_scott {

/// Of each field; fp64, CPU.
struct PerFieldStatistics {
  at::Tensor mean;       ///< [count, channels]
  at::Tensor deviation;  ///< [count, channels]
  at::Tensor skewness;   ///< [count, channels]
  /// [count, size / 2] of the last channel: power of all waves with k - 1/2 <= |wave vector| < k + 1/2, k =
  /// 1, 2, ...; of a pattern without waves beyond size / 2, the sum over k is the variance.
  at::Tensor spectrum;
};
/// fields: [count, channels, size, size], any device. Throws std::invalid_argument for another shape.
[[nodiscard]] PerFieldStatistics field_statistics(const at::Tensor& fields);

/// Sum of the differences between two mean spectra over the sum of the expected one.
[[nodiscard]] double spectrum_error(const at::Tensor& spectra, const at::Tensor& expected);

/// Tells regimes apart by their statistics: linear discriminant with one covariance for all.
class NearestRegime {
 public:
  /// labels: [count] integers in [0, classes), each at least once. Throws std::invalid_argument.
  NearestRegime(const PerFieldStatistics& statistics, const at::Tensor& labels, std::int64_t classes);
  [[nodiscard]] at::Tensor classify(
      const PerFieldStatistics& statistics) const;  ///< [count], 64-bit integers

 private:
  at::Tensor centres_;  ///< [classes, features]
  at::Tensor inverse_;  ///< [features, features], of the covariance
};

}  // namespace dit::gray_scott
