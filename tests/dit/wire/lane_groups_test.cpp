// A lane's groups against the processor's, group by group, and all numbers of 16 bits two in a word.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "wire/device/fp8_lanes.hpp"

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
    clear += count == 32 && std::popcount(likely_scales(x.data(), largest, float_of(largest) / 1.5F)) == 1;
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

LaneWords packed(const Group& x) {
  LaneWords words;
  for (std::uint32_t i = 0; i < kLaneWords; ++i) {
    words.word[i] = narrowed(x[2 * i]) | static_cast<std::uint32_t>(narrowed(x[2 * i + 1])) << 16U;
  }
  return words;
}
Group of_bf16(Group x) {
  for (float& each : x) each = widened(narrowed(each));
  return x;
}

template <class Format>
void compare_packed_scales() {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    Group x = of_bf16(group_of(random, i % 7));
    const std::uint32_t count = i % 10 == 0 ? 8 * (1 + static_cast<std::uint32_t>(random() % 4)) : 32;
    std::fill(x.begin() + count, x.end(), 0.0F);
    if (i % 100 == 99) x[random() % count] = std::bit_cast<float>(i % 200 == 99 ? 0x7fc10000U : 0xff800000U);
    const LaneWords words = packed(x);
    ASSERT_EQ(largest_of_packed(words.word), largest_of(x.data())) << "group " << i;
    const LaneScale got = packed_scale<Format>(words.word, count);
    const LaneScale wanted = lane_scale<Format>(x.data(), count);
    ASSERT_EQ(got.broken, wanted.broken) << "group " << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got.scale), std::bit_cast<std::uint32_t>(wanted.scale))
        << "group " << i;
  }
}
TEST(PackedGroups, ScalesAreTheProcessors) {
  compare_packed_scales<Int8>();
  compare_packed_scales<Int4>();
  compare_packed_scales<Int2>();
  compare_packed_scales<Int1>();
}

TEST(PackedGroups, Int2HardlyEverSearches) {
  std::mt19937 random(4);
  int clear = 0;
  constexpr int kGroups = 20000;
  for (int i = 0; i < kGroups; ++i) {
    const Group x = of_bf16(group_of(random, 0));
    const std::uint32_t largest = largest_of(x.data());
    clear += std::popcount(likely_of_packed(x.data(), largest, float_of(largest) / 1.5F)) == 1 ? 1 : 0;
  }
  EXPECT_GT(clear, kGroups * 997 / 1000);
}

// Every bf16 number within `most` scales, of each mantissa of a scale and exponents from the least to the
// most.
template <class Format>
void compare_all_codes(float most, bool powers_alone) {
  for (const std::uint32_t exponent : {1U, 2U, 30U, 100U, 126U, 127U, 142U, 143U, 144U, 200U, 246U}) {
    for (std::uint32_t mantissa = 0; mantissa < (powers_alone ? 1U : 8U); ++mantissa) {
      const float scale = float_of(exponent << 23U | mantissa << 20U);
      for (std::uint32_t first = 0; first < 0x10000U; first += kLaneNumbers) {
        Group x;
        for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
          x[i] = widened(static_cast<std::uint16_t>(first + i));
          if (!(std::abs(x[i]) <= most * scale)) x[i] = 0;
        }
        std::uint8_t code[Format::kBytes];
        std::uint32_t word[Format::kBytes / 4], expected[Format::kBytes / 4];
        Format::quantise(x.data(), 1.0F / scale, code);
        to_words<Format::kBytes / 4>(code, expected);
        quantise_packed(Format{}, packed(x).word, scale, word);
        ASSERT_TRUE(std::equal(word, word + Format::kBytes / 4, expected)) << first << " over " << scale;
      }
    }
  }
}
TEST(PackedGroups, EachNumberHasTheProcessorsCode) {
  compare_all_codes<Int8>(127.5F, true);
  compare_all_codes<Int4>(7.5F, false);
  compare_all_codes<Int2>(1e9F, false);
  compare_all_codes<Int1>(1e9F, false);
}

// A group's codes by number, so that all bytes come; every byte for a scale.
template <class Format>
void compare_all_numbers(std::uint32_t groups) {
  for (std::uint32_t top = 0; top < 256; top += top % 32 == 31 || top < 40 || top > 250 ? 1 : 8) {
    for (std::uint32_t scale = 0; scale < 256; ++scale) {
      for (std::uint32_t group = 0; group < groups; ++group) {
        std::uint32_t code[Format::kBytes / 4];
        std::uint8_t bytes[Format::kBytes];
        for (std::uint32_t i = 0; i < Format::kBytes; ++i) {
          bytes[i] =
              static_cast<std::uint8_t>((group * Format::kBytes + i) * (Format::kBytes == 32 ? 1 : 37));
        }
        to_words<Format::kBytes / 4>(bytes, code);
        Group x;
        decode_lane<Format>(code, static_cast<std::uint8_t>(scale), top, x.data());
        const LaneWords wanted = packed(x);
        LaneWords got;
        decode_packed<Format>(code, static_cast<std::uint8_t>(scale), top, got.word);
        ASSERT_TRUE(std::equal(got.word, got.word + kLaneWords, wanted.word))
            << "group " << group << ", scale " << scale << ", exponent " << top;
      }
    }
  }
}
TEST(PackedGroups, EachCodeHasTheProcessorsNumber) {
  compare_all_numbers<Int8>(8);
  compare_all_numbers<Int4>(16);
  compare_all_numbers<Int2>(32);
  compare_all_numbers<Int1>(64);
}

// A row's exponent of each number that it can have, and all others for smaller numbers.
TEST(PackedGroups, EachNumberHasFp8sCode) {
  for (std::uint32_t exponent = kLeastRowExponent;
       exponent<256; exponent += exponent> 40 && exponent < 240 ? 9 : 1) {
    for (std::uint32_t first = 0; first < 0x10000U; first += kLaneNumbers) {
      LaneWords words;
      std::uint32_t expected[kLaneNumbers / 4] = {}, code[kLaneNumbers / 4];
      for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
        auto half = static_cast<std::uint16_t>(first + i);
        const std::uint32_t magnitude = bits_of(widened(half)) & kMagnitude;
        if (magnitude < kInfinity && row_exponent(magnitude) > exponent) half = 0;
        words.word[i / 2] = i % 2 == 0 ? half : words.word[i / 2] | static_cast<std::uint32_t>(half) << 16U;
        expected[i / 4] |= static_cast<std::uint32_t>(fp8_code(widened(half), fp8_factor(exponent)))
                           << (8 * (i % 4));
      }
      encode_fp8_packed(words.word, exponent, code);
      ASSERT_TRUE(std::equal(code, code + kLaneNumbers / 4, expected)) << first << ", exponent " << exponent;
      Group x;
      unpack(words.word, x.data());
      ASSERT_EQ(exponent_of_packed(words.word), exponent_of_lane(x.data())) << first;
    }
  }
}
TEST(PackedGroups, EachFp8CodeHasItsNumber) {
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t first = 0; first < 256; first += kLaneNumbers) {
      std::uint32_t code[kLaneNumbers / 4] = {};
      Group x;
      for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
        code[i / 4] |= (first + i) << (8 * (i % 4));
        x[i] = fp8_value(first + i, fp8_scale(static_cast<std::uint8_t>(exponent)));
      }
      LaneWords got;
      decode_fp8_packed(code, static_cast<std::uint8_t>(exponent), got.word);
      ASSERT_TRUE(std::equal(got.word, got.word + kLaneWords, packed(x).word))
          << first << ", exponent " << exponent;
    }
  }
}

}  // namespace
}  // namespace dit
