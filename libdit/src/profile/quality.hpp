/// How far two pictures are apart. Pure; planes of floats with a known range.
#pragma once

#include <cstdint>
#include <span>

namespace dit {

struct Quality {
  double mse = 0;
  double psnr_db = 0;  ///< 10 log10(range^2 / mse); +infinity when equal; -infinity when mse is no number
  /// Mean over channels and all places where the window fits: Gaussian 11x11 (or the largest that a smaller
  /// picture has room for), sigma 1.5, K 0.01 and 0.03 (Wang 2004; scikit-image with gaussian_weights,
  /// use_sample_covariance=False).
  double ssim = 1;
  double max_error = 0;  ///< largest absolute difference
};
/// What is not finite is like nothing, not even like itself: mse, ssim and max_error are then not a number or
/// infinite, and no picture is worse. a, b: [channels, height, width], contiguous. `range`: largest minus
/// smallest possible value, > 0. Throws std::invalid_argument when sizes do not match.
[[nodiscard]] Quality compare(std::span<const float> a, std::span<const float> b, std::int64_t channels,
                              std::int64_t height, std::int64_t width, double range);

}  // namespace dit
