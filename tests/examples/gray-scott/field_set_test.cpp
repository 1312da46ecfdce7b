#include "field_set.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

#include "training_fixture.hpp"

namespace dit::gray_scott {
namespace {

/// Fields whose values name field, channel and pixel.
FieldSet numbered(std::int64_t count, std::int64_t size) {
  return {at::arange(count * 2 * size * size, at::kFloat).reshape({count, 2, size, size}),
          at::arange(count) + 10};
}

TEST(FieldSet, SimulatesEachRegimeInOrder) {
  GrayScottOptions options;
  options.size = 16;
  options.steps = 5;
  std::vector<std::int64_t> seen;
  const std::vector<GrayScottRegime> regimes(gray_scott_regimes().begin(), gray_scott_regimes().begin() + 3);
  const FieldSet set =
      simulate_fields(regimes, 2, options, at::kCPU, [&](std::int64_t n) { seen.push_back(n); });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_TRUE(at::equal(set.labels, at::tensor({0, 0, 1, 1, 2, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(set.fields.narrow(0, 2, 2), simulate_gray_scott(regimes[1], 2, options, at::kCPU)));
}

TEST(FieldSet, UnitsGoThereAndBack) {
  at::manual_seed(1);
  const FieldSet set{at::rand({6, 2, 8, 8}) * 3.0 + 1.0, at::zeros({6}, at::kLong)};
  const std::vector<ChannelScale> scales = measure_scales(set);
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_EQ(scales[1].name, "v");
  const at::Tensor units = to_model_units(set.fields, scales);
  EXPECT_NEAR(units.select(1, 0).mean().item<double>(), 0.0, 1e-3);
  EXPECT_NEAR(units.select(1, 1).std().item<double>(), 1.0, 1e-3);
  EXPECT_LT((to_physical_units(units, scales) - set.fields).abs().max().item<double>(), 1e-5);
}

TEST(FieldSet, UniformDataIsRefused) {
  const FieldSet set{at::ones({2, 2, 8, 8}), at::zeros({2}, at::kLong)};
  EXPECT_EQ(message_of<std::runtime_error>([&] { (void)measure_scales(set); }),
            "training data: channel u is uniform, nothing can be learnt");
}

/// How neighbours in a drawn field lie in the original: a step along each axis, the same everywhere.
struct Motion {
  std::int64_t field = 0;
  std::pair<std::int64_t, std::int64_t> down;
  std::pair<std::int64_t, std::int64_t> right;
  bool operator<(const Motion& other) const {
    return std::tie(down, right) < std::tie(other.down, other.right);
  }
};

Motion motion_of(const at::Tensor& field, std::int64_t size) {
  const at::Tensor whole = field.to(at::kLong);
  Motion motion{whole[0][0][0].item<std::int64_t>() / (2 * size * size), {}, {}};
  const auto place = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    const std::int64_t value = whole[c][y % size][x % size].item<std::int64_t>();
    EXPECT_EQ(value / (size * size), 2 * motion.field + c) << "a pixel of another field or channel";
    return std::pair{value / size % size, value % size};
  };
  const auto step = [&](const auto& a, const auto& b) {
    return std::pair{(b.first - a.first + size) % size, (b.second - a.second + size) % size};
  };
  motion.down = step(place(0, 0, 0), place(0, 1, 0));
  motion.right = step(place(0, 0, 0), place(0, 0, 1));
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t pixel = 0; pixel < size * size; ++pixel) {
      const std::int64_t y = pixel / size;
      const std::int64_t x = pixel % size;
      EXPECT_EQ(step(place(c, y, x), place(c, y + 1, x)), motion.down);
      EXPECT_EQ(step(place(c, y, x), place(c, y, x + 1)), motion.right);
    }
  }
  return motion;
}

TEST(FieldSet, BatchesAreMovedFieldsWithTheirLabels) {
  const std::int64_t size = 4;
  const FieldSet set = numbered(5, size);
  at::Generator generator = seeded_generator(at::kCPU, 3);
  const FieldBatch batch = draw_batch(set, 60, generator);
  ASSERT_EQ(batch.fields.sizes(), (at::IntArrayRef{60, 2, size, size}));
  std::set<Motion> motions;
  std::set<std::int64_t> fields;
  for (std::int64_t i = 0; i < 60; ++i) {
    const Motion motion = motion_of(batch.fields[i], size);
    EXPECT_EQ(batch.labels[i].item<std::int64_t>(), motion.field + 10);
    motions.insert(motion);
    fields.insert(motion.field);
  }
  EXPECT_EQ(motions.size(), 8U) << "two flips and a transposition";
  EXPECT_EQ(fields.size(), 5U);
}

TEST(FieldSet, SeedsNameBatches) {
  const FieldSet set = numbered(5, 4);
  at::Generator one = seeded_generator(at::kCPU, 3);
  at::Generator same = seeded_generator(at::kCPU, 3);
  at::Generator other = seeded_generator(at::kCPU, 4);
  const at::Tensor fields = draw_batch(set, 8, one).fields;
  EXPECT_TRUE(at::equal(fields, draw_batch(set, 8, same).fields));
  EXPECT_FALSE(at::equal(fields, draw_batch(set, 8, other).fields));
}

TEST(FieldSet, ATenthOfTheLabelsIsDropped) {
  at::Generator generator = seeded_generator(at::kCPU, 3);
  const at::Tensor labels = drop_labels(at::full({20000}, 3, at::kLong), 0.1, 12, generator);
  EXPECT_NEAR((labels == 12).to(at::kDouble).mean().item<double>(), 0.1, 0.01);
  EXPECT_TRUE((labels == 12).logical_or(labels == 3).all().item<bool>());
  EXPECT_TRUE((drop_labels(labels, 0.0, 7, generator) != 7).all().item<bool>());
}

}  // namespace
}  // namespace dit::gray_scott
