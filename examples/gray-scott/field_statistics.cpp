#include "field_statistics.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace dit::gray_scott {
namespace {

constexpr std::int64_t kBands = 10;
constexpr std::int64_t kFieldsAtOnce = 64;  // bounds the memory of copies in double precision
/// Variance of a noise of 0.3 % of v's range: smaller waves are not seen, and tell no regimes apart.
constexpr double kUnseenPower = 1e-6;

/// Shell of each wave of fft2, [size * size]: |wave vector| rounded; what lies beyond the last shell goes to
/// `size / 2
/// + 1`.
at::Tensor shells(std::int64_t size) {
  const at::Tensor wave = at::arange(size, at::kDouble);
  const at::Tensor frequency = at::minimum(wave, static_cast<double>(size) - wave);
  const at::Tensor radius = at::sqrt(frequency.square().unsqueeze(1) + frequency.square().unsqueeze(0));
  return at::floor(radius + 0.5).clamp_max(static_cast<double>(size / 2 + 1)).to(at::kLong).flatten();
}

/// fields: [count, size, size], fp64.
at::Tensor radial_spectrum(const at::Tensor& fields) {
  const std::int64_t size = fields.size(2);
  const at::Tensor waves = at::fft_fft2(fields - fields.mean({1, 2}, true));
  const at::Tensor power =
      at::real(waves * at::conj(waves)).flatten(1) / std::pow(static_cast<double>(size), 4);
  const at::Tensor sums =
      at::zeros({fields.size(0), size / 2 + 2}, at::kDouble).index_add(1, shells(size), power);
  return sums.narrow(1, 1, size / 2);
}

/// Sums over about `kBands` bands of equal ratio.
at::Tensor bands(const at::Tensor& spectrum) {
  const std::int64_t count = spectrum.size(1);
  std::vector<at::Tensor> sums;
  std::int64_t begin = 0;
  for (std::int64_t band = 1; band <= kBands; ++band) {
    const double share = static_cast<double>(band) / static_cast<double>(kBands);
    const auto end = static_cast<std::int64_t>(std::llround(std::pow(static_cast<double>(count), share)));
    if (end > begin) {
      sums.push_back(spectrum.narrow(1, begin, end - begin).sum(1));
      begin = end;
    }
  }
  return at::stack(sums, 1);
}

at::Tensor features(const PerFieldStatistics& s) {
  return at::cat({s.mean, s.deviation, s.skewness, at::log10(bands(s.spectrum) + kUnseenPower)}, 1);
}

void check_fields(const at::Tensor& fields) {
  if (!fields.defined() || fields.dim() != 4 || fields.numel() == 0 || fields.size(2) != fields.size(3) ||
      fields.size(2) < 2) {
    throw std::invalid_argument("fields: expected [count, channels, size, size], at least 2 pixels a side");
  }
}

void check_labels(const at::Tensor& labels, std::int64_t count, std::int64_t classes) {
  if (!labels.defined() || labels.dim() != 1 || labels.size(0) != count ||
      labels.scalar_type() != at::kLong) {
    throw std::invalid_argument("labels: expected " + std::to_string(count) + " integers, one per field");
  }
  for (const std::int64_t value : {labels.min().item<std::int64_t>(), labels.max().item<std::int64_t>()}) {
    if (value < 0 || value >= classes) {
      throw std::invalid_argument("labels have " + std::to_string(value) + ": expected 0 to " +
                                  std::to_string(classes - 1));
    }
  }
  const at::Tensor members = at::bincount(labels, {}, classes);
  if (members.min().item<std::int64_t>() == 0) {
    throw std::invalid_argument("labels: class " + std::to_string(members.argmin().item<std::int64_t>()) +
                                " has no field, expected at least 1");
  }
}

PerFieldStatistics statistics_of_portion(const at::Tensor& fields) {
  const at::Tensor all = fields.to(at::kCPU).to(at::kDouble);
  const at::Tensor flat = all.flatten(2);
  PerFieldStatistics result;
  result.mean = flat.mean(2);
  const at::Tensor centred = flat - result.mean.unsqueeze(2);
  result.deviation = centred.square().mean(2).sqrt();
  result.skewness = centred.pow(3).mean(2) / (result.deviation.pow(3) + 1e-12);
  result.spectrum = radial_spectrum(all.select(1, all.size(1) - 1));
  return result;
}

}  // namespace

PerFieldStatistics field_statistics(const at::Tensor& fields) {
  check_fields(fields);
  const at::NoGradGuard no_grad;
  std::vector<PerFieldStatistics> portions;
  for (std::int64_t begin = 0; begin < fields.size(0); begin += kFieldsAtOnce) {
    const std::int64_t count = std::min(kFieldsAtOnce, fields.size(0) - begin);
    portions.push_back(statistics_of_portion(fields.narrow(0, begin, count)));
  }
  const auto joined = [&](at::Tensor PerFieldStatistics::*part) {
    std::vector<at::Tensor> parts;
    for (const PerFieldStatistics& portion : portions) {
      parts.push_back(portion.*part);
    }
    return at::cat(parts);
  };
  return {joined(&PerFieldStatistics::mean), joined(&PerFieldStatistics::deviation),
          joined(&PerFieldStatistics::skewness), joined(&PerFieldStatistics::spectrum)};
}

double spectrum_error(const at::Tensor& spectra, const at::Tensor& expected) {
  const at::Tensor reference = expected.mean(0);
  return ((spectra.mean(0) - reference).abs().sum() / reference.sum()).item<double>();
}

NearestRegime::NearestRegime(const PerFieldStatistics& statistics, const at::Tensor& labels,
                             std::int64_t classes) {
  check_labels(labels, statistics.mean.size(0), classes);
  const at::Tensor x = features(statistics);
  const at::Tensor member = at::one_hot(labels.to(at::kCPU), classes).to(at::kDouble);
  centres_ = at::mm(member.t(), x) / member.sum(0).unsqueeze(1);
  const at::Tensor rest = x - at::mm(member, centres_);
  at::Tensor covariance = at::mm(rest.t(), rest) / static_cast<double>(x.size(0));
  // A little of its own diagonal keeps it regular where features depend on each other.
  covariance = covariance + at::diag(covariance.diagonal() * 0.01 + 1e-10);
  inverse_ = at::linalg_inv(covariance);
}

at::Tensor NearestRegime::classify(const PerFieldStatistics& statistics) const {
  const at::Tensor x = features(statistics);
  if (x.size(1) != centres_.size(1)) {
    throw std::invalid_argument("fields have " + std::to_string(statistics.mean.size(1)) +
                                " channels: expected as many as the examples");
  }
  const at::Tensor away = x.unsqueeze(1) - centres_.unsqueeze(0);  // [count, classes, features]
  return (at::matmul(away, inverse_) * away).sum(2).argmin(1);
}

}  // namespace dit::gray_scott
