/// A lane's 32 bf16 numbers, two in a word as they lie: to the codes of group_codes.hpp and back, two at once
/// or with what bf16's eight bits spare. What cannot be done so, with the same bits, is refused, and
/// lane_groups.hpp does it.
#pragma once

#include "wire/device/lane_groups.hpp"

namespace dit {

inline constexpr std::uint32_t kLaneWords = kLaneNumbers / 2;

namespace {

struct LaneWords {
  std::uint32_t word[kLaneWords];
};

DIT_SHARED void unpack(const std::uint32_t* word, float* x) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneWords; ++i) {
    x[2 * i] = float_of(word[i] << 16U);
    x[2 * i + 1] = float_of(word[i] & 0xffff0000U);
  }
}

/// largest_of(): also beyond infinity where one is a NaN.
DIT_SHARED std::uint32_t largest_of_packed(const std::uint32_t* word) {
  std::uint32_t largest = larger_magnitudes(word[0], word[1]);
  DIT_UNROLL
  for (std::uint32_t i = 2; i < kLaneWords; ++i) {
    largest = larger_magnitudes(largest, word[i]);
  }
  const std::uint32_t low = largest << 16U & kMagnitude;
  const std::uint32_t high = largest & 0x7fff0000U;
  return low > high ? low : high;
}

// ---- Scales.

template <class Group>
DIT_SHARED float scale_of_packed(const std::uint32_t* word, std::uint32_t count, std::uint32_t largest) {
  float x[kLaneNumbers];
  unpack(word, x);
  return scale_of_lane<Group>(x, count, largest);
}

/// The mean is summed without its factor, a power of two: the same bits where no sum overflows, as bf16's
/// smallest number over 32 is still one of fp32.
template <>
DIT_SHARED float scale_of_packed<Int1>(const std::uint32_t* word, std::uint32_t count,
                                       std::uint32_t largest) {
  constexpr std::uint32_t kMost = (127U + 120U) << 23U;
  float x[kLaneNumbers];
  unpack(word, x);
  if (count < kLaneNumbers || largest > kMost) {
    return Int1::scale(x, count, largest);
  }
  float lane[kLanes];
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    lane[i] = magnitude_of(x[i]) + magnitude_of(x[i + kLanes]);
  }
  return rounded_scale(sum_of_lanes(lane) * 0.03125F);
}

/// likely_scales() in whole numbers: the largest magnitude L has 512 to 1023 steps, scales and all that is
/// beyond the least of them are whole steps, and sums of what is beyond are exact. A square as
/// searched_scale() finds it is off by at most 2^-21 of itself, which is below L (A + 4 L), where A is the
/// sum of magnitudes; the one found here by little more, as A is summed in a tree. The bound that is used is
/// nearly twice both.
DIT_SHARED std::uint32_t likely_of_packed(const float* x, std::uint32_t largest, float top) {
  constexpr float kWhole = 8388608.0F;  // 2^23: what is added to it becomes whole
  if (largest < kLeastSquared || largest > kMostSquared) {
    return kAllScales;
  }
  const float unit = float_of((127U + 127U + 9U - (largest >> 23U)) << 23U);
  std::uint32_t steps[kLaneWords];
  float all[kLanes];
  static_assert(kLaneWords == kLanes);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneWords; ++i) {
    const float low = magnitude_of(x[2 * i]);
    const float high = magnitude_of(x[2 * i + 1]);
    all[i] = low + high;
    steps[i] = bytes_from(bits_of(fused(low, unit, kWhole)), bits_of(fused(high, unit, kWhole)), 0x5410U);
  }
  const float sum_of_all = sum_of_lanes(all) * unit;
  const float most = float_of(largest) * unit;
  float squares[Int2::kScales];
  DIT_UNROLL
  for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
    const float own = int2_scale(top, k) * unit;
    const std::uint32_t bits = bits_of(own + kWhole);
    const std::uint32_t less = bytes_from(bits, bits, 0x1010U) | 0x80008000U;
    std::uint32_t beyond = 0;  // two sums below 2^16
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneWords; i += 2) {
      beyond += excess(steps[i], less) + excess(steps[i + 1], less);
    }
    const auto sum = static_cast<float>(static_cast<std::int32_t>((beyond & 0xffffU) + (beyond >> 16U)));
    squares[k] = own * (8.0F * own - sum_of_all - 2.0F * sum);
  }
  return near_the_least(squares, 0x1p-18F * most * (sum_of_all + 4.0F * most));
}

template <>
DIT_SHARED float scale_of_packed<Int2>(const std::uint32_t* word, std::uint32_t count,
                                       std::uint32_t largest) {
  float x[kLaneNumbers];
  unpack(word, x);
  const float top = float_of(largest) / 1.5F;
  return best_scale(x, count, top, count == kLaneNumbers ? likely_of_packed(x, largest, top) : kAllScales);
}

template <class Group>
DIT_SHARED LaneScale packed_scale(const std::uint32_t* word, std::uint32_t count) {
  const std::uint32_t largest = largest_of_packed(word);
  return lane_scale_of(largest, [&] { return scale_of_packed<Group>(word, count, largest); });
}

// ---- To codes: quantise_lane().

template <class Group>
DIT_SHARED void quantise_packed(Group of, const std::uint32_t* word, float scale, std::uint32_t* code) {
  float x[kLaneNumbers];
  unpack(word, x);
  quantise_lane(of, x, 1.0F / scale, code);
}

// A power of two, so that the product is exact, or less than half a step.
DIT_SHARED void quantise_packed(Int8 /*of*/, const std::uint32_t* word, float scale, std::uint32_t* code) {
  const float inverse = 1.0F / scale;
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    std::uint32_t steps[4];
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t two = word[2 * w + i];
      steps[2 * i] = bits_of(fused(float_of(two << 16U), inverse, kRounder));
      steps[2 * i + 1] = bits_of(fused(float_of(two & 0xffff0000U), inverse, kRounder));
    }
    code[w] = lowest_bytes(steps[0], steps[1], steps[2], steps[3]);
  }
}

/// A number over a scale is at least 1 where it is at least the scale: 1 / scale rounds so (a test has all
/// eight). The smallest numbers over very large scales would be 0, which is not below 0.
constexpr float kMostSignedScale = 65536.0F;
DIT_SHARED void quantise_packed(Int2 of, const std::uint32_t* word, float scale, std::uint32_t* code) {
  if (scale > kMostSignedScale) {
    float x[kLaneNumbers];
    unpack(word, x);
    return quantise_lane(of, x, 1.0F / scale, code);
  }
  constexpr std::uint32_t kSigns = 0x80008000U, kOnes = 0x3f803f80U;
  const std::uint32_t least = bytes_from(bits_of(scale), bits_of(scale), 0x3232U);
  std::uint32_t pairs[4];  // numbers 8 apart, two bits each, in the higher bytes of halves
  DIT_UNROLL
  for (std::uint32_t pair = 0; pair < 4; ++pair) {
    std::uint32_t levels = 0;
    DIT_UNROLL
    for (std::uint32_t part = 0; part < 4; ++part) {
      const std::uint32_t x = fused_bf16(word[4 * part + pair], kOnes, 0);  // -0 becomes 0
      const std::uint32_t far = (x | kSigns) - least;
      const std::uint32_t level = (~x & kSigns) | ((far ^ x) >> 1U & (kSigns >> 1U));
      levels = levels >> 2U | level;
    }
    pairs[pair] = levels;
  }
  code[0] = bytes_from(pairs[0], pairs[1], 0x7531U);
  code[1] = bytes_from(pairs[2], pairs[3], 0x7531U);
}

/// encode_lane().
template <class Group>
DIT_SHARED std::uint8_t encode_packed(const std::uint32_t* word, const LaneScale& of, std::uint32_t top,
                                      std::uint32_t* code) {
  const std::uint8_t scale = of.broken ? kBrokenGroup : scale_code(of.scale, top);
  if (scale != 0 && !of.broken && of.scale != 0.0F) {
    quantise_packed(Group{}, word, of.scale, code);
    return scale;
  }
  float x[kLaneNumbers];
  unpack(word, x);
  return encode_lane<Group>(x, of, top, code);
}

// ---- From codes: what narrowed() makes of restore_lane(). A scale has four bits, so that a number of up to
// 8 bits in its steps, with a scale within restores_packed(), needs no rounding.

/// Of a finite, normal scale: whether its multiples are far from what bf16 holds.
DIT_SHARED bool restores_packed(float scale) {
  constexpr float kMost = 0x1p100F;
  return scale > 0.0F && scale <= kMost;
}
DIT_SHARED std::uint32_t twice(float bf16) {
  return bytes_from(bits_of(bf16), bits_of(bf16), 0x3232U);
}

// (2^23 + 128 + step) scale - (2^23 + 128) scale: the products are exact, as the constant has 17 bits.
DIT_SHARED void restore_packed(Int8 /*of*/, const std::uint32_t* code, float scale, std::uint32_t* word) {
  const float less = -8388736.0F * scale;
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    const std::uint32_t positive = code[w] ^ 0x80808080U;
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      word[2 * w + i] = two_bf16(fused(above_2_23(positive, 2 * i), scale, less),
                                 fused(above_2_23(positive, 2 * i + 1), scale, less));
    }
  }
}

// 128 + 8 + step as a bf16 number: the step is in its lowest bits.
DIT_SHARED void restore_packed(Int4 /*of*/, const std::uint32_t* code, float scale, std::uint32_t* word) {
  const std::uint32_t factor = twice(scale);
  const std::uint32_t less = twice(-136.0F * scale);
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 4; ++w) {
    DIT_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      const std::uint32_t positive = (code[w] >> (4 * h) & 0x0f0f0f0fU) ^ 0x08080808U;
      DIT_UNROLL
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t steps = bytes_from(positive, 0x43434343U, 0x4140U + 0x0202U * i);
        word[8 * h + 2 * w + i] = fused_bf16(steps, factor, less);
      }
    }
  }
}

// 2 + level / 2, times 2 scale.
DIT_SHARED void restore_packed(Int2 /*of*/, const std::uint32_t* code, float scale, std::uint32_t* word) {
  const std::uint32_t factor = twice(2.0F * scale);
  const std::uint32_t less = twice(-5.5F * scale);
  DIT_UNROLL
  for (std::uint32_t part = 0; part < 4; ++part) {
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 2; ++w) {
      const std::uint32_t moved = part < 3 ? code[w] << (5 - 2 * part) : code[w] >> 1U;
      DIT_UNROLL
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t levels = bytes_from(moved & 0x60606060U, 0x40404040U, 0x4140U + 0x0202U * i);
        word[4 * part + 2 * w + i] = fused_bf16(levels, factor, less);
      }
    }
  }
}

/// Bits 2i and 2i + 1 to i and 16 + i.
DIT_SHARED std::uint32_t bits_apart(std::uint32_t bits) {
  const auto swapped = [](std::uint32_t x, std::uint32_t by, std::uint32_t low) {
    const std::uint32_t other = (x ^ x >> by) & low;
    return x ^ other ^ other << by;
  };
  bits = swapped(bits, 1, 0x22222222U);
  bits = swapped(bits, 2, 0x0c0c0c0cU);
  bits = swapped(bits, 4, 0x00f000f0U);
  return bytes_from(bits, bits, 0x3120U);
}
DIT_SHARED void restore_packed(Int1 /*of*/, const std::uint32_t* code, float scale, std::uint32_t* word) {
  const std::uint32_t magnitudes = twice(scale);
  const std::uint32_t signs = bits_apart(code[0]);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneWords; ++i) {
    word[i] = magnitudes | (signs << (15 - i) & 0x80008000U);
  }
}

/// decode_lane(), and the numbers in bf16.
template <class Group>
DIT_SHARED void decode_packed(const std::uint32_t* code, std::uint8_t scale_byte, std::uint32_t top,
                              std::uint32_t* word) {
  const float scale = scale_of(scale_byte, top);
  if (restores_packed(scale)) {
    return restore_packed(Group{}, code, scale, word);
  }
  float x[kLaneNumbers];
  decode_lane<Group>(code, scale_byte, top, x);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneWords; ++i) {
    word[i] = narrowed(x[2 * i]) | static_cast<std::uint32_t>(narrowed(x[2 * i + 1])) << 16U;
  }
}

}  // namespace
}  // namespace dit
