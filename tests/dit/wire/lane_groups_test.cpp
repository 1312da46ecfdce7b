// A lane's groups against the processor's, group by group.
#include "wire/device/lane_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

namespace dit {
namespace {

using Group = std::array<float, kWireGroup>;

// Groups of all kinds: also of few values, where scales are equally good or nearly so.
Group group_of(std::mt19937& random, int kind) {
  std::normal_distribution<float> normal(0, 1);
  Group group;
  for (float& x : group) {
    x = normal(random);
    if (kind == 1) x = static_cast<float>(static_cast<int>(random() % 7) - 3);
    if (kind == 2) x = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0xffff0000U);
    if (kind == 3) x *= std::ldexp(1.0F, static_cast<int>(random() % 60) - 70);
    if (kind == 4) x = (random() % 2 == 0 ? 1.0F : -1.0F) * (random() % 8 == 0 ? 1.0F : 0.4F);
    if (kind == 5) x = random() % 16 == 0 ? x : 0.0F;
    if (kind == 6) x = std::copysign(std::exp(x), normal(random));
    if (!(std::abs(x) <= 3e38F)) x = 1;
  }
  return group;
}

TEST(LaneGroups, Int2FindsTheProcessorsScale) {
  std::mt19937 random(1);
  int clear = 0;
  constexpr int kGroups = 400000;
  for (int i = 0; i < kGroups; ++i) {
    Group x = group_of(random, i % 7);
    const std::uint32_t count = i % 10 == 0 ? 1 + static_cast<std::uint32_t>(random() % 32) : 32;
    std::fill(x.begin() + count, x.end(), 0.0F);
    const std::uint32_t largest = largest_of(x.data());
    if (largest == 0) continue;
    const float scale = scale_of_lane<Int2>(x.data(), count, largest);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scale),
              std::bit_cast<std::uint32_t>(Int2::scale(x.data(), count, largest)))
        << "group " << i;
    clear += count == 32 && clearly_best_scale(x.data(), largest, float_of(largest) / 1.5F) >= 0 ? 1 : 0;
  }
  EXPECT_GT(clear, kGroups / 3) << "the short way is hardly ever taken";
}

template <class Format>
void compare_codes() {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const Group x = group_of(random, i % 7);
    const std::uint32_t largest = largest_of(x.data());
    float scale = largest == 0 ? 0.0F : Format::scale(x.data(), kWireGroup, largest);
    if (!std::isnormal(scale)) continue;
    std::uint8_t code[Format::kBytes];
    std::uint32_t word[Format::kBytes / 4], expected[Format::kBytes / 4];
    Format::quantise(x.data(), 1.0F / scale, code);
    to_words<Format::kBytes / 4>(code, expected);
    quantise_lane(Format{}, x.data(), 1.0F / scale, word);
    ASSERT_TRUE(std::equal(word, word + Format::kBytes / 4, expected)) << "group " << i;
    // And back, of any code.
    for (std::uint32_t& one : word) one = static_cast<std::uint32_t>(random());
    for (std::size_t at = 0; at < Format::kBytes; ++at) {
      code[at] = static_cast<std::uint8_t>(word[at / 4] >> (8 * (at % 4)));
    }
    Group got, wanted;
    restore_lane(Format{}, word, scale, got.data());
    Format::restore(code, scale, wanted.data());
    for (std::size_t at = 0; at < kWireGroup; ++at) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[at]), std::bit_cast<std::uint32_t>(wanted[at]))
          << "group " << i;
    }
  }
}

TEST(LaneGroups, CodesAreTheProcessors) {
  compare_codes<Int8>();
  compare_codes<Int4>();
  compare_codes<Int2>();
  compare_codes<Int1>();
}

}  // namespace
}  // namespace dit
