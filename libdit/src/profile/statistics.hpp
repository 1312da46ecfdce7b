/// Whether generated fields are like simulated ones: means, spreads, spectra, and which class they look like.
/// Fields are [count, channels, height, width]; everything is computed in double precision on the CPU.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace dit {

/// Rings of the spectrum: equal steps of spatial frequency up to 1/2 cycle per pixel, so that fields of
/// different sizes can be compared.
constexpr std::int64_t kSpectrumBins = 32;

/// Per field and channel, [count, channels].
[[nodiscard]] at::Tensor field_means(const at::Tensor& fields);
[[nodiscard]] at::Tensor field_deviations(
    const at::Tensor& fields);  ///< of pixels around the field's own mean

/// Power spectral density of each field by spatial frequency, [count, channels, kSpectrumBins]: mean of
/// |FFT|^2 / pixels over the frequencies of a ring, without frequency 0. Sides of at least 2 kSpectrumBins.
[[nodiscard]] at::Tensor radial_spectrum(const at::Tensor& fields);

/// A set of fields (one class) as a whole.
struct FieldStatistics {
  at::Tensor mean;       ///< [channels]
  at::Tensor deviation;  ///< [channels], of all pixels of all fields
  at::Tensor spectrum;   ///< [channels, kSpectrumBins], mean over fields
};
[[nodiscard]] FieldStatistics statistics_of(const at::Tensor& fields);

/// How far one set is from another.
struct StatisticsError {
  double mean = 0;          ///< largest absolute difference over channels
  double deviation = 0;     ///< the same
  double log_spectrum = 0;  ///< root mean square over channels and rings of ln(a / b): 0.1 is about 10 %
};
[[nodiscard]] StatisticsError compare(const FieldStatistics& a, const FieldStatistics& b);

/// Tells classes apart by statistics alone: features (means, deviations, log spectra) in units of their
/// spread within classes, nearest class centre.
class RegimeClassifier {
 public:
  /// From examples; `labels` [count], integers from 0 to classes - 1, each class at least once, two or more
  /// fields beyond one per class. Throws std::invalid_argument.
  RegimeClassifier(const at::Tensor& fields, const at::Tensor& labels, std::int64_t classes);

  [[nodiscard]] at::Tensor distances(const at::Tensor& fields) const;  ///< [count, classes], root mean square
  [[nodiscard]] at::Tensor classify(const at::Tensor& fields) const;   ///< [count], integers
  /// Share of fields whose class is their label.
  [[nodiscard]] double accuracy(const at::Tensor& fields, const at::Tensor& labels) const;

 private:
  at::Tensor centres_;  ///< [classes, features], in units of spread_
  at::Tensor spread_;   ///< [features]
};

}  // namespace dit
