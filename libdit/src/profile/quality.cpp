#include "profile/quality.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace dit {
namespace {

constexpr std::int64_t kRadius = 5;  // 11 x 11, Wang 2004
constexpr double kSigma = 1.5;
constexpr double kK1 = 0.01;
constexpr double kK2 = 0.03;

using Window = std::vector<double>;

/// Pictures smaller than the window get the largest that fits.
Window gaussian_window(std::int64_t height, std::int64_t width) {
  const std::int64_t radius = std::min(kRadius, (std::min(height, width) - 1) / 2);
  Window window;
  double sum = 0;
  for (std::int64_t i = -radius; i <= radius; ++i) {
    const auto x = static_cast<double>(i);
    window.push_back(std::exp(-x * x / (2 * kSigma * kSigma)));
    sum += window.back();
  }
  for (double& weight : window) {
    weight /= sum;
  }
  return window;
}

/// A channel in double precision.
struct Plane {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<double> values;

  Plane(std::int64_t rows, std::int64_t columns)
      : height(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}
  [[nodiscard]] double& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * width + column)];
  }
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * width + column)];
  }
};

/// Means under the window where it fits: rows, then columns. Smaller by the window less one on both axes.
Plane blurred(const Plane& plane, const Window& window) {
  const auto length = static_cast<std::int64_t>(window.size());
  Plane rows(plane.height, plane.width - length + 1);
  for (std::int64_t y = 0; y < rows.height; ++y) {
    for (std::int64_t x = 0; x < rows.width; ++x) {
      double sum = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        sum += window[static_cast<std::size_t>(i)] * plane.at(y, x + i);
      }
      rows.at(y, x) = sum;
    }
  }
  Plane result(plane.height - length + 1, rows.width);
  for (std::int64_t y = 0; y < result.height; ++y) {
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t x = 0; x < result.width; ++x) {
        result.at(y, x) += window[static_cast<std::size_t>(i)] * rows.at(y + i, x);
      }
    }
  }
  return result;
}

Plane product(const Plane& a, const Plane& b) {
  Plane result(a.height, a.width);
  std::transform(a.values.begin(), a.values.end(), b.values.begin(), result.values.begin(),
                 [](double x, double y) { return x * y; });
  return result;
}

/// Both means, variances and covariance at each place make one value; their mean.
double mean_ssim(const Plane& a, const Plane& b, double range) {
  const Window window = gaussian_window(a.height, a.width);
  const Plane mean_a = blurred(a, window);
  const Plane mean_b = blurred(b, window);
  const Plane square_a = blurred(product(a, a), window);
  const Plane square_b = blurred(product(b, b), window);
  const Plane mixed = blurred(product(a, b), window);
  const double c1 = kK1 * range * kK1 * range;
  const double c2 = kK2 * range * kK2 * range;
  double sum = 0;
  for (std::size_t i = 0; i < mixed.values.size(); ++i) {
    const double ma = mean_a.values[i];
    const double mb = mean_b.values[i];
    const double variance_a = square_a.values[i] - ma * ma;
    const double variance_b = square_b.values[i] - mb * mb;
    const double covariance = mixed.values[i] - ma * mb;
    sum += (2 * ma * mb + c1) * (2 * covariance + c2) /
           ((ma * ma + mb * mb + c1) * (variance_a + variance_b + c2));
  }
  return sum / static_cast<double>(mixed.values.size());
}

Plane channel_of(std::span<const float> image, std::int64_t channel, std::int64_t height,
                 std::int64_t width) {
  Plane plane(height, width);
  const auto size = static_cast<std::size_t>(height * width);
  const auto values = image.subspan(static_cast<std::size_t>(channel) * size, size);
  std::copy(values.begin(), values.end(), plane.values.begin());
  return plane;
}

void check_sizes(std::span<const float> a, std::span<const float> b, std::int64_t channels,
                 std::int64_t height, std::int64_t width, double range) {
  const auto fail = [](const std::string& what) { throw std::invalid_argument(what); };
  constexpr std::int64_t most = 1 << 20;  // a side; keeps the product below 2^63
  const auto side = [&](const char* name, std::int64_t value) {
    if (value < 1 || value > most) {
      fail(std::string(name) + " = " + std::to_string(value) + ": expected 1 to " + std::to_string(most));
    }
  };
  side("channels", channels);
  side("height", height);
  side("width", width);
  const auto expected = static_cast<std::uint64_t>(channels * height * width);
  for (const auto& [name, image] : {std::pair{"a", a}, std::pair{"b", b}}) {
    if (image.size() != expected) {
      fail(std::string(name) + " has " + std::to_string(image.size()) + " values: expected " +
           std::to_string(expected));
    }
  }
  if (!(range > 0) || !std::isfinite(range)) {
    fail("range = " + std::to_string(range) + ": expected a number above 0");
  }
}

/// Never NaN: it must be possible to put pictures in order.
double psnr(double mse, double range) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!std::isfinite(mse)) {
    return -infinity;
  }
  return mse == 0 ? infinity : 10 * std::log10(range * range / mse);
}

}  // namespace

Quality compare(std::span<const float> a, std::span<const float> b, std::int64_t channels,
                std::int64_t height, std::int64_t width, double range) {
  check_sizes(a, b, channels, height, width, range);
  Quality quality;
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += error * error;
    if (std::isnan(error) || std::abs(error) > quality.max_error) {  // once NaN, always NaN
      quality.max_error = std::abs(error);
    }
  }
  quality.mse = squares / static_cast<double>(a.size());
  quality.psnr_db = psnr(quality.mse, range);
  quality.ssim = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    quality.ssim +=
        mean_ssim(channel_of(a, channel, height, width), channel_of(b, channel, height, width), range);
  }
  quality.ssim /= static_cast<double>(channels);
  return quality;
}

}  // namespace dit
