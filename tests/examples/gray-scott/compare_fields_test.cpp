#include "compare_fields.hpp"

#include <gtest/gtest.h>

#include <numbers>

#include "../../dit/message_of.hpp"

namespace dit::gray_scott {
namespace {

/// Waves of a class's length and a field's own amplitude and place.
at::Tensor field(std::int64_t label, double amplitude, double place) {
  constexpr std::int64_t kSize = 32;
  const at::Tensor x = at::arange(kSize, at::kDouble) * (2 * std::numbers::pi / kSize);
  const at::Tensor v =
      (at::cos(static_cast<double>(3 + 4 * label) * (x + place)) * amplitude).expand({kSize, kSize});
  const at::Tensor noise = at::randn({kSize, kSize}, at::kDouble) * 0.01;
  return at::stack({v * 0.5 + noise, v + noise}, 0);
}

FieldSet simulated(std::int64_t of_class) {
  std::vector<at::Tensor> fields;
  std::vector<std::int64_t> labels;
  for (std::int64_t label = 0; label < 2; ++label) {
    for (std::int64_t i = 0; i < of_class; ++i) {
      fields.push_back(field(label, 1 + 0.05 * static_cast<double>(i), 0.3 * static_cast<double>(i)));
      labels.push_back(label);
    }
  }
  return {at::stack(fields, 0), at::tensor(labels, at::kLong)};
}

TEST(CompareFields, TellsSmallChangesFromOtherFields) {
  at::manual_seed(5);
  const FieldSet taught = simulated(12);
  const at::Tensor exact = at::stack({field(0, 1.1, 0.1), field(1, 1.2, 0.2), field(1, 1.3, 0.7)}, 0);
  const at::Tensor other = at::stack({exact[0], exact[1] * 1.9, exact[0]}, 0);
  const FieldComparison compared =
      compare_fields({{"exact", exact}, {"near", exact * 1.001}, {"other", other}},
                     at::tensor({0, 1, 1}, at::kLong), taught, 2);
  EXPECT_EQ(compared.fields, 3);
  EXPECT_GT(compared.spread_median, 0.01);
  ASSERT_EQ(compared.ways.size(), 3U);
  EXPECT_EQ(compared.ways[0].spectrum_worst, 0);
  EXPECT_EQ(compared.ways[0].named_as_first, 3);
  EXPECT_EQ(compared.ways[0].named_right, 3);
  EXPECT_NEAR(compared.ways[1].spectrum_median, 0.002, 1e-3);
  EXPECT_EQ(compared.ways[1].beyond_spread, 0);
  EXPECT_EQ(compared.ways[1].named_as_first, 3);
  EXPECT_EQ(compared.ways[2].beyond_spread, 2);
  EXPECT_EQ(compared.ways[2].named_as_first, 2);
  EXPECT_GT(compared.ways[2].spectrum_worst, 1);
}

TEST(CompareFields, MisuseNamesWhatIsWrong) {
  const at::Tensor labels = at::zeros({1}, at::kLong);
  const at::Tensor one = at::randn({1, 2, 32, 32}, at::kDouble);
  EXPECT_EQ(misuse_of([&] { static_cast<void>(compare_fields({}, labels, simulated(3), 2)); }),
            "no fields: expected those of at least one way");
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(compare_fields({{"a", at::zeros({1, 2, 16, 16})}}, labels, simulated(3), 2));
            }),
            "fields of a: expected as many as there are classes, 1, and of the simulated ones' size, 32");
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(compare_fields({{"a", one}}, labels + 2, simulated(3), 2));
            }),
            "labels: expected 0 to 1");
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(compare_fields({{"a", one}}, labels, simulated(2), 2));
            }),
            "class 0 has 2 simulated fields: expected at least 3");
}

}  // namespace
}  // namespace dit::gray_scott
