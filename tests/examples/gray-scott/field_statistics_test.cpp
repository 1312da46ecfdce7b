#include "field_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "../../dit/message_of.hpp"
#include "field_set.hpp"

namespace dit::gray_scott {
namespace {

/// v = 1 + amplitude cos(2 pi (kx x + ky y) / size), u = 0.
at::Tensor wave(std::int64_t size, double kx, double ky, double amplitude) {
  const at::Tensor x = at::arange(size, at::kDouble) * (2 * std::numbers::pi / static_cast<double>(size));
  const at::Tensor v = 1.0 + amplitude * at::cos(kx * x.unsqueeze(0) + ky * x.unsqueeze(1));
  return at::stack({at::zeros_like(v), v}, 0).unsqueeze(0);
}

TEST(FieldStatistics, WaveHasItsPowerInItsShell) {
  const PerFieldStatistics s = field_statistics(wave(32, 3, 4, 0.2));
  EXPECT_NEAR(s.mean[0][1].item<double>(), 1.0, 1e-12);
  EXPECT_NEAR(s.deviation[0][1].item<double>(), 0.2 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(s.skewness[0][1].item<double>(), 0.0, 1e-9);
  ASSERT_EQ(s.spectrum.sizes(), (at::IntArrayRef{1, 16}));
  EXPECT_NEAR(s.spectrum[0][4].item<double>(), 0.02, 1e-12) << "|(3, 4)| = 5";
  EXPECT_NEAR(s.spectrum.sum().item<double>(), 0.02, 1e-12);
}

TEST(FieldStatistics, SpectrumOfNoiseSumsToItsVariance) {  // Parseval, but for the corners beyond size / 2
  at::manual_seed(2);
  const PerFieldStatistics s = field_statistics(at::randn({100, 1, 64, 64}, at::kDouble) * 2);
  EXPECT_NEAR(s.spectrum.sum(1).mean().item<double>(), 4 * std::numbers::pi / 4, 0.1);
  const double a_wave = 4.0 / (64 * 64);
  const double waves = std::numbers::pi * (28.5 * 28.5 - 8.5 * 8.5);  // area between two circles
  EXPECT_NEAR(s.spectrum.mean(0).narrow(0, 8, 20).sum().item<double>(), a_wave * waves, 0.02 * a_wave * waves)
      << "all directions count";
}

TEST(FieldStatistics, FieldsDoNotDependOnTheirNeighbours) {
  at::manual_seed(3);
  const at::Tensor fields = at::randn({130, 2, 16, 16});
  const PerFieldStatistics all = field_statistics(fields);
  const PerFieldStatistics last = field_statistics(fields.narrow(0, 129, 1));
  for (const auto part : {&PerFieldStatistics::mean, &PerFieldStatistics::deviation,
                          &PerFieldStatistics::skewness, &PerFieldStatistics::spectrum}) {
    EXPECT_EQ((all.*part).size(0), 130);
    EXPECT_TRUE(at::allclose((all.*part).narrow(0, 129, 1), last.*part, 1e-12, 1e-15));
  }
}

TEST(FieldStatistics, MisuseNamesWhatIsWrong) {
  const std::string shape = "fields: expected [count, channels, size, size], at least 2 pixels a side";
  EXPECT_EQ(misuse_of([] { static_cast<void>(field_statistics(at::zeros({3, 3}))); }), shape);
  EXPECT_EQ(misuse_of([] { static_cast<void>(field_statistics(at::zeros({1, 1, 8, 6}))); }), shape);
  EXPECT_EQ(misuse_of([] { static_cast<void>(field_statistics(at::zeros({0, 1, 8, 8}))); }), shape);
  const PerFieldStatistics four = field_statistics(at::randn({4, 1, 32, 32}));
  const auto fit = [&](const at::Tensor& labels) {
    return misuse_of([&] { static_cast<void>(NearestRegime(four, labels, 2)); });
  };
  EXPECT_EQ(fit(at::tensor({0, 1, 0, 1}, at::kLong)), nothing_thrown);
  EXPECT_EQ(fit(at::tensor({0, 1, 0}, at::kLong)), "labels: expected 4 integers, one per field");
  EXPECT_EQ(fit(at::tensor({0, 1, 0, 2}, at::kLong)), "labels have 2: expected 0 to 1");
  EXPECT_EQ(fit(at::tensor({0, 0, 0, 0}, at::kLong)), "labels: class 1 has no field, expected at least 1");
  const NearestRegime classifier(four, at::tensor({0, 1, 0, 1}, at::kLong), 2);
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(classifier.classify(field_statistics(at::zeros({1, 2, 32, 32}))));
            }),
            "fields have 2 channels: expected as many as the examples");
}

TEST(FieldStatistics, SpectrumErrorIsAShareOfThePower) {
  const at::Tensor one = at::tensor({1.0, 3.0, 0.0}, at::kDouble).unsqueeze(0);
  const at::Tensor other = at::tensor({2.0, 3.0, 1.0}, at::kDouble).unsqueeze(0);
  EXPECT_EQ(spectrum_error(one, one), 0.0);
  EXPECT_NEAR(spectrum_error(other, one), 0.5, 1e-12);
}

TEST(NearestRegime, TellsSimulatedRegimesApart) {
  GrayScottOptions options;
  options.size = 64;
  options.steps = 1500;
  const std::vector<GrayScottRegime> regimes(gray_scott_regimes().begin(), gray_scott_regimes().begin() + 4);
  const FieldSet taught = simulate_fields(regimes, 5, options, at::kCPU);
  options.seed = 1;
  const FieldSet asked = simulate_fields(regimes, 3, options, at::kCPU);
  const NearestRegime classifier(field_statistics(taught.fields), taught.labels, 4);
  const at::Tensor named = classifier.classify(field_statistics(asked.fields));
  EXPECT_GE((named == asked.labels).to(at::kDouble).mean().item<double>(), 0.8);
  at::manual_seed(1);
  const at::Tensor noisy = asked.fields + 1e-4 * at::randn(asked.fields.sizes());
  EXPECT_TRUE(at::equal(classifier.classify(field_statistics(noisy)), named))
      << "what nobody sees must not count";
}

}  // namespace
}  // namespace dit::gray_scott
