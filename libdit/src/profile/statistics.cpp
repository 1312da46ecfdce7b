#include "profile/statistics.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace dit {
namespace {

constexpr std::int64_t kFieldsAtOnce = 64;  // bounds the memory of double-precision copies
constexpr double kLeastPower = 1e-12;       // below it a spectrum is noise of the arithmetic

void check_fields(const at::Tensor& fields) {
  if (!fields.defined() || fields.dim() != 4 || fields.numel() == 0) {
    throw std::invalid_argument("fields: expected [count, channels, height, width], none of them 0");
  }
}

at::Tensor wide(const at::Tensor& fields) {
  return fields.to(at::kCPU, at::kDouble);
}

/// `function` of a few fields at a time, results one after the other.
template <typename Function>
at::Tensor in_portions(const at::Tensor& fields, const Function& function) {
  check_fields(fields);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < fields.size(0); begin += kFieldsAtOnce) {
    const std::int64_t count = std::min(kFieldsAtOnce, fields.size(0) - begin);
    parts.push_back(function(wide(fields.narrow(0, begin, count))));
  }
  return at::cat(parts);
}

/// Of each frequency of a real FFT: its ring, and how many frequencies of the whole FFT it stands for (0: in
/// no ring).
struct Rings {
  at::Tensor ring;   ///< [height * (width / 2 + 1)], integers
  at::Tensor count;  ///< the same, double
};

Rings rings_of(std::int64_t height, std::int64_t width) {
  const at::TensorOptions options(at::kDouble);
  const at::Tensor fy = at::fft_fftfreq(height, 1.0, options).unsqueeze(1);
  const at::Tensor fx = at::fft_rfftfreq(width, 1.0, options).unsqueeze(0);
  const at::Tensor frequency = at::sqrt(fy * fy + fx * fx).flatten();
  // Ring b: frequencies above b / (2 bins), up to and with (b + 1) / (2 bins). A little less for rounding.
  const at::Tensor ring = at::ceil(frequency * (2 * kSpectrumBins) - 1e-9).to(at::kLong) - 1;
  const at::Tensor column = at::arange(width / 2 + 1, options).unsqueeze(0).expand({height, -1}).flatten();
  const at::Tensor alone = (column == 0).logical_or(column * 2 == static_cast<double>(width));
  const at::Tensor inside = (ring >= 0).logical_and(ring < kSpectrumBins);
  return {ring.clamp(0, kSpectrumBins - 1), at::where(alone, 1.0, 2.0) * inside.to(at::kDouble)};
}

at::Tensor features_of(const at::Tensor& fields) {
  const at::Tensor spectrum = radial_spectrum(fields).clamp_min(kLeastPower).log();
  return at::cat({field_means(fields), field_deviations(fields), spectrum.flatten(1)}, 1);
}

at::Tensor checked_labels(const at::Tensor& labels, std::int64_t count, std::int64_t classes) {
  const bool shape = labels.defined() && labels.dim() == 1 && labels.size(0) == count;
  if (!shape || !at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw std::invalid_argument("labels: expected " + std::to_string(count) + " integers, one per field");
  }
  const at::Tensor result = labels.to(at::kCPU, at::kLong);
  for (const std::int64_t value : {result.min().item<std::int64_t>(), result.max().item<std::int64_t>()}) {
    if (value < 0 || value >= classes) {
      throw std::invalid_argument("labels have " + std::to_string(value) + ": expected 0 to " +
                                  std::to_string(classes - 1));
    }
  }
  return result;
}

}  // namespace

at::Tensor field_means(const at::Tensor& fields) {
  return in_portions(fields, [](const at::Tensor& part) { return part.mean({2, 3}); });
}

at::Tensor field_deviations(const at::Tensor& fields) {
  return in_portions(fields,
                     [](const at::Tensor& part) { return part.flatten(2).std(2, /*unbiased=*/false); });
}

at::Tensor radial_spectrum(const at::Tensor& fields) {
  check_fields(fields);
  const std::int64_t height = fields.size(2);
  const std::int64_t width = fields.size(3);
  if (std::min(height, width) < 2 * kSpectrumBins) {
    throw std::invalid_argument("fields of " + std::to_string(height) + " x " + std::to_string(width) +
                                " pixels: expected at least " + std::to_string(2 * kSpectrumBins) +
                                " a side for a spectrum");
  }
  const Rings rings = rings_of(height, width);
  const at::Tensor total = at::zeros({kSpectrumBins}, at::kDouble).index_add(0, rings.ring, rings.count);
  return in_portions(fields, [&](const at::Tensor& part) {
    const at::Tensor transform = at::view_as_real(at::fft_rfft2(part).contiguous());
    const at::Tensor power = transform.square().sum(-1).flatten(2) / static_cast<double>(height * width);
    const at::Tensor sums = at::zeros({part.size(0), part.size(1), kSpectrumBins}, at::kDouble)
                                .index_add(2, rings.ring, power * rings.count);
    return sums / total;
  });
}

FieldStatistics statistics_of(const at::Tensor& fields) {
  const at::Tensor means = field_means(fields);
  const at::Tensor squares = field_deviations(fields).square() + means.square();
  const at::Tensor mean = means.mean(0);
  return {mean, (squares.mean(0) - mean.square()).clamp_min(0).sqrt(), radial_spectrum(fields).mean(0)};
}

StatisticsError compare(const FieldStatistics& a, const FieldStatistics& b) {
  if (a.mean.sizes() != b.mean.sizes()) {
    throw std::invalid_argument("statistics of " + std::to_string(a.mean.numel()) + " and " +
                                std::to_string(b.mean.numel()) + " channels: expected as many");
  }
  const auto log_power = [](const FieldStatistics& s) { return s.spectrum.clamp_min(kLeastPower).log(); };
  return {(a.mean - b.mean).abs().max().item<double>(),
          (a.deviation - b.deviation).abs().max().item<double>(),
          (log_power(a) - log_power(b)).square().mean().sqrt().item<double>()};
}

RegimeClassifier::RegimeClassifier(const at::Tensor& fields, const at::Tensor& labels, std::int64_t classes) {
  check_fields(fields);
  if (classes < 1 || fields.size(0) < classes + 2) {
    throw std::invalid_argument("classes = " + std::to_string(classes) + " and " +
                                std::to_string(fields.size(0)) +
                                " fields: expected at least two fields more than classes, and one class");
  }
  const at::Tensor label = checked_labels(labels, fields.size(0), classes);
  const at::Tensor features = features_of(fields);
  const at::Tensor member = at::one_hot(label, classes).to(at::kDouble);
  const at::Tensor members = member.sum(0);
  if (members.min().item<double>() < 1) {
    throw std::invalid_argument("labels: class " + std::to_string(members.argmin().item<std::int64_t>()) +
                                " has no field, expected at least 1");
  }
  const at::Tensor centres = at::matmul(member.t(), features) / members.unsqueeze(1);
  const at::Tensor within = (features - centres.index_select(0, label)).square().mean(0).sqrt();
  // A feature that never varies within classes must not count without bound.
  spread_ = within.maximum(features.std(0, /*unbiased=*/false) * 1e-3).clamp_min(1e-9);
  centres_ = centres / spread_;
}

at::Tensor RegimeClassifier::distances(const at::Tensor& fields) const {
  const at::Tensor features = features_of(fields);
  if (features.size(1) != spread_.size(0)) {
    throw std::invalid_argument("fields have " + std::to_string(fields.size(1)) +
                                " channels: expected as many as the examples");
  }
  const at::Tensor apart = (features / spread_).unsqueeze(1) - centres_.unsqueeze(0);
  return apart.square().mean(2).sqrt();
}

at::Tensor RegimeClassifier::classify(const at::Tensor& fields) const {
  return distances(fields).argmin(1);
}

double RegimeClassifier::accuracy(const at::Tensor& fields, const at::Tensor& labels) const {
  const at::Tensor label = checked_labels(labels, fields.size(0), centres_.size(0));
  return (classify(fields) == label).to(at::kDouble).mean().item<double>();
}

}  // namespace dit
