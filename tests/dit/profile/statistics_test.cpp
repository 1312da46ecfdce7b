#include "profile/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace dit {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// mean + amplitude cos(2 pi (fx x + fy y)), [1, 1, size, size].
at::Tensor wave(std::int64_t size, double fx, double fy, double mean, double amplitude) {
  const at::Tensor place = at::arange(size, at::kDouble);
  const at::Tensor phase = place.unsqueeze(1) * (2 * kPi * fy) + place.unsqueeze(0) * (2 * kPi * fx);
  return (mean + amplitude * phase.cos()).reshape({1, 1, size, size});
}
/// Noise with waves of a class's own length and strength: count fields of two channels.
at::Tensor fields_of_class(int label, std::int64_t count, std::int64_t size) {
  const at::Tensor noise = at::randn({count, 2, size, size}, at::kDouble) * 0.05;
  const double frequency = (4 + 3 * (label % 4)) / 64.0;
  const at::Tensor shift = at::rand({count, 1, 1, 1}, at::kDouble);
  const at::Tensor row = at::arange(size, at::kDouble).reshape({1, 1, 1, size});
  return noise + at::cos((row * frequency + shift) * (2 * kPi)) * (label < 4 ? 0.3 : 0.2) + 0.5;
}
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Statistics, MeansAndDeviations) {
  const at::Tensor fields = at::cat({wave(64, 0.25, 0, 0.5, 0.2), wave(64, 0, 0.125, -1, 1)}, 1);
  EXPECT_NEAR(field_means(fields)[0][0].item<double>(), 0.5, 1e-12);
  EXPECT_NEAR(field_means(fields)[0][1].item<double>(), -1, 1e-12);
  EXPECT_NEAR(field_deviations(fields)[0][0].item<double>(), 0.2 / std::sqrt(2), 1e-12);
  const at::Tensor two = at::cat({wave(64, 0.25, 0, 1, 0), wave(64, 0.25, 0, 3, 0)});
  const FieldStatistics whole = statistics_of(two);
  EXPECT_NEAR(whole.mean[0].item<double>(), 2, 1e-12);
  EXPECT_NEAR(whole.deviation[0].item<double>(), 1, 1e-12) << "fields that differ spread the set";
}

TEST(Spectrum, AWaveFillsItsRing) {
  for (const std::int64_t size : {64, 128}) {
    for (const double frequency : {1.0 / 64, 7.0 / 64, 0.5}) {
      const at::Tensor power = radial_spectrum(wave(size, frequency, 0, 3, 1))[0][0];
      const auto ring = static_cast<std::int64_t>(std::lround(frequency * 64)) - 1;
      EXPECT_EQ(power.argmax().item<std::int64_t>(), ring) << size << " " << frequency;
      EXPECT_NEAR(power[ring].item<double>() / power.sum().item<double>(), 1, 1e-9)
          << "nothing from the mean";
    }
  }
  const at::Tensor slanted = radial_spectrum(wave(128, 3.0 / 64, -4.0 / 64, 0, 1))[0][0];
  EXPECT_EQ(slanted.argmax().item<std::int64_t>(), 4) << "3, 4: 5 / 64 cycles";
}

TEST(Spectrum, WhiteNoiseIsFlatAtItsVariance) {  // Parseval, and rings are means over as many as they have
  at::manual_seed(2);
  const at::Tensor noise = at::randn({100, 1, 64, 96}, at::kDouble) * 2;
  const at::Tensor power = radial_spectrum(noise).mean(0)[0];
  EXPECT_NEAR(power.mean().item<double>(), 4, 0.05);
  EXPECT_LT((power / 4 - 1).abs().max().item<double>(), 0.35);
  EXPECT_LT((power.narrow(0, 8, 24) / 4 - 1).abs().max().item<double>(), 0.05);
}

TEST(Spectrum, DoesNotDependOnSizeOrPortions) {
  at::manual_seed(3);
  const at::Tensor fields = at::randn({130, 2, 64, 64});
  const at::Tensor all = radial_spectrum(fields);
  EXPECT_TRUE(at::allclose(all.narrow(0, 129, 1), radial_spectrum(fields.narrow(0, 129, 1)), 1e-12, 0));
  EXPECT_TRUE(at::allclose(all, radial_spectrum(fields.transpose(2, 3)), 1e-9, 1e-12)) << "no direction";
}

TEST(Statistics, ErrorsAreMeasured) {
  at::manual_seed(4);
  const at::Tensor a = at::randn({40, 2, 64, 64}, at::kDouble);
  const FieldStatistics truth = statistics_of(a);
  const StatisticsError none = compare(truth, truth);
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.log_spectrum, 0);
  const StatisticsError error = compare(statistics_of(a * 1.1 + 0.25), truth);
  EXPECT_NEAR(error.mean, 0.25, 0.01);
  EXPECT_NEAR(error.deviation, 0.1, 0.01);
  EXPECT_NEAR(error.log_spectrum, 2 * std::log(1.1), 1e-9);
}

TEST(RegimeClassifier, TellsSyntheticClassesApart) {
  at::manual_seed(5);
  std::vector<at::Tensor> train;
  std::vector<at::Tensor> test;
  std::vector<at::Tensor> labels;
  for (int label = 0; label < 8; ++label) {
    train.push_back(fields_of_class(label, 6, 64));
    test.push_back(fields_of_class(label, 6, 128));  // another size: the same waves
    labels.push_back(at::full({6}, label, at::kLong));
  }
  const RegimeClassifier classifier(at::cat(train), at::cat(labels), 8);
  EXPECT_EQ(classifier.accuracy(at::cat(train), at::cat(labels)), 1);
  EXPECT_EQ(classifier.distances(test[0]).sizes(), (at::IntArrayRef{6, 8}));
  for (int label = 0; label < 8; ++label) {
    const at::Tensor found = classifier.classify(test[static_cast<std::size_t>(label)]) % 4;
    EXPECT_TRUE(at::equal(found, at::full({6}, label % 4, at::kLong))) << label << ": wave length";
  }
  EXPECT_NEAR(classifier.accuracy(train[0], at::tensor({0, 0, 0, 1, 1, 1}, at::kLong)), 0.5, 1e-12);
}

TEST(Statistics, MisuseNamesWhatIsWrong) {
  const at::Tensor fields = at::randn({4, 1, 64, 64});
  const auto fit = [](const at::Tensor& f, const at::Tensor& labels, std::int64_t classes) {
    return message_of([&] { static_cast<void>(RegimeClassifier(f, labels, classes)); });
  };
  EXPECT_EQ(message_of([] {
              static_cast<void>(field_means(at::zeros({3, 3})));
            }),
            "fields: expected [count, channels, height, width], none of them 0");
  EXPECT_EQ(message_of([] {
              static_cast<void>(radial_spectrum(at::zeros({1, 1, 64, 63})));
            }),
            "fields of 64 x 63 pixels: expected at least 64 a side for a spectrum");
  EXPECT_EQ(fit(fields, at::tensor({0, 1, 0, 1}, at::kLong), 2), "");
  EXPECT_EQ(fit(fields, at::tensor({0, 1, 0}, at::kLong), 2), "labels: expected 4 integers, one per field");
  EXPECT_EQ(fit(fields, at::tensor({0, 1, 0, 2}, at::kLong), 2), "labels have 2: expected 0 to 1");
  EXPECT_EQ(fit(fields, at::tensor({0, 0, 0, 0}, at::kLong), 2),
            "labels: class 1 has no field, expected at least 1");
  EXPECT_EQ(fit(fields, at::tensor({0, 1, 2, 3}, at::kLong), 4),
            "classes = 4 and 4 fields: expected at least two fields more than classes, and one class");
  const RegimeClassifier classifier(fields, at::tensor({0, 1, 0, 1}, at::kLong), 2);
  EXPECT_EQ(message_of([&] {
              static_cast<void>(classifier.classify(at::zeros({1, 2, 64, 64})));
            }),
            "fields have 2 channels: expected as many as the examples");
  const FieldStatistics one = statistics_of(fields);
  const FieldStatistics two = statistics_of(at::zeros({1, 2, 64, 64}));
  EXPECT_EQ(message_of([&] { static_cast<void>(compare(one, two)); }),
            "statistics of 1 and 2 channels: expected as many");
}

}  // namespace
}  // namespace dit
