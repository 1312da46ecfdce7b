#include "profile/quality.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../message_of.hpp"

namespace dit {
namespace {

constexpr std::int64_t kHeight = 40;
constexpr std::int64_t kWidth = 48;

/// Two channels of formulas.
std::vector<float> picture(const std::function<double(double, double)>& first,
                           const std::function<double(double, double)>& second) {
  std::vector<float> values;
  for (const auto& channel : {first, second}) {
    for (std::int64_t y = 0; y < kHeight; ++y) {
      for (std::int64_t x = 0; x < kWidth; ++x) {
        values.push_back(static_cast<float>(channel(static_cast<double>(x), static_cast<double>(y))));
      }
    }
  }
  return values;
}
std::vector<float> picture_a() {
  return picture([](double x, double y) { return 0.5 + 0.4 * std::sin(0.3 * x + 0.1 * y * y * 0.05); },
                 [](double, double y) { return 0.2 + 0.01 * y; });
}
std::vector<float> picture_b() {
  return picture([](double x, double y) { return 0.5 + 0.35 * std::sin(0.3 * x + 0.1 * y * y * 0.05 + 0.2); },
                 [](double x, double y) { return 0.25 + 0.008 * y + 0.05 * std::cos(0.9 * x); });
}

// Values of scikit-image 0.26: structural_similarity(gaussian_weights=True, sigma=1.5,
// use_sample_covariance=False, channel_axis=0), peak_signal_noise_ratio.
TEST(Quality, AgreesWithScikitImage) {
  const Quality q = compare(picture_a(), picture_b(), 2, kHeight, kWidth, 1.0);
  EXPECT_NEAR(q.ssim, 0.7443050719134134, 1e-7);
  EXPECT_NEAR(q.psnr_db, 25.319945829082076, 1e-5);
  EXPECT_NEAR(q.mse, 0.0029376862944189637, 1e-9);
  EXPECT_NEAR(q.max_error, 0.10000000894069672, 1e-7);
  EXPECT_NEAR(compare(picture_a(), picture_b(), 2, kHeight, kWidth, 2.0).ssim, 0.869276465316553, 1e-7);
}

TEST(Quality, ChannelsCountAlike) {
  const std::vector<float> a = picture_a();
  const std::vector<float> b = picture_b();
  const std::size_t plane = kHeight * kWidth;
  EXPECT_NEAR(compare({a.data(), plane}, {b.data(), plane}, 1, kHeight, kWidth, 1.0).ssim, 0.9451276759080341,
              1e-7);
  EXPECT_NEAR(compare({a.data() + plane, plane}, {b.data() + plane, plane}, 1, kHeight, kWidth, 1.0).ssim,
              0.5434824679187928, 1e-7);
}

TEST(Quality, EqualPicturesAreInfinitelyGood) {
  const Quality q = compare(picture_a(), picture_a(), 2, kHeight, kWidth, 1.0);
  EXPECT_EQ(q.mse, 0);
  EXPECT_EQ(q.psnr_db, std::numeric_limits<double>::infinity());
  EXPECT_NEAR(q.ssim, 1, 1e-12);
  EXPECT_EQ(q.max_error, 0);
}

TEST(Quality, OnePixel) {
  std::vector<float> b = picture_a();
  b[100] += 0.5F;
  const Quality q = compare(picture_a(), b, 2, kHeight, kWidth, 2.0);
  EXPECT_NEAR(q.max_error, 0.5, 1e-6);
  EXPECT_NEAR(q.mse, 0.25 / (2 * kHeight * kWidth), 1e-9);
  EXPECT_NEAR(q.psnr_db, 10 * std::log10(4 / q.mse), 1e-9);
  EXPECT_LT(q.ssim, 1);
}

TEST(Quality, SmallPicturesHaveSsimToo) {
  const std::vector<float> a = {0.1F, 0.9F, 0.4F, 0.3F, 0.8F, 0.2F};
  EXPECT_NEAR(compare(a, a, 1, 2, 3, 1.0).ssim, 1, 1e-12);
  std::vector<float> b = a;
  b[0] = 1;
  EXPECT_LT(compare(a, b, 1, 2, 3, 1.0).ssim, 1);
}

// What is not finite is like nothing, not even itself, and no picture is worse.
TEST(Quality, NotFiniteIsWorst) {
  for (const float broken : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> b = picture_a();
    b[7] = broken;
    for (const std::vector<float>& a : {picture_a(), b}) {
      const Quality q = compare(a, b, 2, kHeight, kWidth, 1.0);
      EXPECT_FALSE(std::isfinite(q.mse));
      EXPECT_EQ(q.psnr_db, -std::numeric_limits<double>::infinity());
      EXPECT_FALSE(std::isfinite(q.ssim));
      EXPECT_FALSE(std::isfinite(q.max_error));
    }
  }
}

TEST(Quality, MisuseNamesWhatIsWrong) {
  const std::vector<float> a(24);
  const auto error = [&](std::size_t n, std::int64_t channels, std::int64_t height, double range) {
    return misuse_of([&] { static_cast<void>(compare(a, {a.data(), n}, channels, height, 4, range)); });
  };
  EXPECT_EQ(error(24, 2, 3, 1), nothing_thrown);
  EXPECT_EQ(error(23, 2, 3, 1), "b has 23 values: expected 24");
  EXPECT_EQ(error(24, 2, 4, 1), "a has 24 values: expected 32");
  EXPECT_EQ(error(24, 0, 3, 1), "channels = 0: expected 1 to 1048576");
  EXPECT_EQ(error(24, 2, -3, 1), "height = -3: expected 1 to 1048576");
  EXPECT_EQ(error(24, 2, 3, 0), "range = 0.000000: expected a number above 0");
}

}  // namespace
}  // namespace dit
