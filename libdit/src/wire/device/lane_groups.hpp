/// A lane's group of 32 numbers in the formats of group_codes.hpp: the same codes, four bytes at once, and
/// the same scales with fewer steps.
#pragma once

#include "wire/device/one_instruction.hpp"
#include "wire/group_codes.hpp"

namespace dit {

inline constexpr std::uint32_t kLaneNumbers = 32;

namespace {

DIT_SHARED std::uint32_t largest_of(const float* x) {
  std::uint32_t largest[2] = {0, 0};
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    largest[i % 2] = larger_magnitude(largest[i % 2], x[i]);
  }
  return larger_magnitude(largest[0], float_of(largest[1]));
}

// ---- int8: a byte each.

DIT_SHARED std::uint32_t rounded_steps(float x, float inverse) {
  return bits_of(x * inverse + kRounder);  // the step is in the lowest bits
}
/// The lowest bytes of four.
DIT_SHARED std::uint32_t lowest_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return bytes_from(bytes_from(a, b, 0x0040U), bytes_from(c, d, 0x0040U), 0x5410U);
}
/// Byte `i` as a number above 2^23, whose last bit is worth 1.
DIT_SHARED float above_2_23(std::uint32_t word, std::uint32_t i) {
  return float_of(bytes_from(word, 0x4B000000U, 0x7440U + i));
}

DIT_SHARED void quantise_lane(Int8 /*of*/, const float* x, float inverse, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    word[w] = lowest_bytes(rounded_steps(x[4 * w], inverse), rounded_steps(x[4 * w + 1], inverse),
                           rounded_steps(x[4 * w + 2], inverse), rounded_steps(x[4 * w + 3], inverse));
  }
}
DIT_SHARED void restore_lane(Int8 /*of*/, const std::uint32_t* word, float scale, float* x) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    const std::uint32_t positive = word[w] ^ 0x80808080U;  // 128 more
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      x[4 * w + i] = (above_2_23(positive, i) - 8388736.0F) * scale;
    }
  }
}

// ---- int4: byte i has numbers i and i + 16.

DIT_SHARED void quantise_lane(Int4 /*of*/, const float* x, float inverse, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 4; ++w) {
    std::uint32_t half[2];
    DIT_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      const float* const from = x + 16 * h + 4 * w;
      half[h] = lowest_bytes(rounded_steps(from[0], inverse), rounded_steps(from[1], inverse),
                             rounded_steps(from[2], inverse), rounded_steps(from[3], inverse));
    }
    word[w] = (half[0] & 0x0f0f0f0fU) | (half[1] << 4U & 0xf0f0f0f0U);
  }
}
DIT_SHARED void restore_lane(Int4 /*of*/, const std::uint32_t* word, float scale, float* x) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 4; ++w) {
    DIT_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      const std::uint32_t positive = (word[w] >> (4 * h) & 0x0f0f0f0fU) ^ 0x08080808U;  // 8 more
      DIT_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        x[16 * h + 4 * w + i] = (above_2_23(positive, i) - 8388616.0F) * scale;
      }
    }
  }
}

// ---- int2: byte i has numbers i, i + 8, i + 16, i + 24. A level's higher bit: not below 0; its lower one:
// far from 0 when that, near when not.

DIT_SHARED void quantise_lane(Int2 /*of*/, const float* x, float inverse, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 2; ++w) {
    std::uint32_t below = 0;  // signs of numbers, in the higher bit of each pair of bits
    std::uint32_t near = 0;
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t at = 15 - i;
      const float v = x[4 * w + at / 4 + at % 4 * 8] * inverse;
      below = followed_by(below, bits_of(v + 0.0F), 2);  // -0 is not below 0
      near = followed_by(near, bits_of(magnitude_of(v) - 1.0F), 2);
    }
    word[w] = (~below & 0xaaaaaaaaU) | (~(near ^ below) >> 1U & 0x55555555U);
  }
}
DIT_SHARED void restore_lane(Int2 /*of*/, const std::uint32_t* word, float scale, float* x) {
  DIT_UNROLL
  for (std::uint32_t part = 0; part < 4; ++part) {
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 2; ++w) {
      // Twice the level, beside 2^22, whose last bit is worth a half.
      const std::uint32_t twice = (part == 0 ? word[w] << 1U : word[w] >> (2 * part - 1)) & 0x06060606U;
      DIT_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        x[8 * part + 4 * w + i] =
            (float_of(bytes_from(twice, 0x4A800000U, 0x7640U + i)) - 4194305.5F) * scale;
      }
    }
  }
}

// ---- int1: signs.

DIT_SHARED void quantise_lane(Int1 /*of*/, const float* x, float /*inverse*/, std::uint32_t* word) {
  std::uint32_t signs = 0;
  DIT_UNROLL
  for (std::uint32_t i = kLaneNumbers; i-- > 0;) {
    signs = followed_by(signs, bits_of(x[i]), 1);
  }
  word[0] = signs;
}
DIT_SHARED void restore_lane(Int1 /*of*/, const std::uint32_t* word, float scale, float* x) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    x[i] = float_of(bits_of(scale) | (word[0] << (31 - i) & kSignBit));
  }
}

// ---- Scales.

/// What Group::scale() gives, of a group of `count` numbers with zeros behind them.
template <class Group>
DIT_SHARED float scale_of_lane(const float* x, std::uint32_t count, std::uint32_t largest) {
  return Group::scale(x, count, largest);
}

DIT_SHARED float int2_scale(float top, std::uint32_t k) {
  constexpr float kFactors[Int2::kScales] = {1.0F, 0.875F, 0.75F, 0.65F, 0.55F, 0.45F};
  return rounded_scale(top * kFactors[k]);
}

constexpr std::uint32_t kAllScales = (1U << Int2::kScales) - 1;

/// Scale after scale of those whose bit is set, each with all its squares in their order.
DIT_SHARED float searched_scale(const float* x, std::uint32_t count, float top, std::uint32_t among) {
  float best = 0;
  float least = -1;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
    if ((among >> k & 1U) == 0) {
      continue;
    }
    const float scale = int2_scale(top, k);
    float lane[kLanes];
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const float first = i < count ? Int2::square_off(x[i], scale) : 0.0F;
      const float second = i + kLanes < count ? Int2::square_off(x[i + kLanes], scale) : 0.0F;
      lane[i] = first + second;
    }
    const float square = sum_of_lanes(lane);
    const bool better = least < 0 || square < least;
    best = better ? scale : best;
    least = better ? square : least;
  }
  return best;
}

/// Those scales whose squares are at most `off` above the least.
DIT_SHARED std::uint32_t near_the_least(const float* squares, float off) {
  float least = squares[0];
  DIT_UNROLL
  for (std::uint32_t k = 1; k < Int2::kScales; ++k) {
    least = squares[k] < least ? squares[k] : least;
  }
  std::uint32_t near = 0;
  DIT_UNROLL
  for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
    near |= squares[k] <= least + off ? 1U << k : 0U;
  }
  return near;
}

/// Magnitudes between these: no square of what a scale leaves of them is lost.
constexpr std::uint32_t kLeastSquared = (127U - 40U) << 23U;
constexpr std::uint32_t kMostSquared = (127U + 40U) << 23U;

/// Which scales may be the best, a bit each. The square of what a scale s leaves of magnitudes m is, but for
/// what all scales have in common, 8 s^2 - s sum(m) - 2 s sum(max(m - s, 0)). In magnitudes over the largest,
/// as numbers of fp32 give it, and as searched_scale() finds it, it is off by no more than 2^-17 (sum(m) +
/// 1).
DIT_SHARED std::uint32_t likely_scales(const float* x, std::uint32_t largest, float top) {
  if (largest < kLeastSquared || largest > kMostSquared) {
    return kAllScales;
  }
  const float unit = 1.0F / float_of(largest);
  float scales[Int2::kScales];
  float beyond[Int2::kScales][2] = {};
  float all[2] = {};
  DIT_UNROLL
  for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
    scales[k] = int2_scale(top, k) * unit;
  }
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    const float magnitude = magnitude_of(x[i]) * unit;
    all[i % 2] += magnitude;
    DIT_UNROLL
    for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
      beyond[k][i % 2] += within_one(magnitude - scales[k]);
    }
  }
  const float sum_of_all = all[0] + all[1];
  float squares[Int2::kScales];
  DIT_UNROLL
  for (std::uint32_t k = 0; k < Int2::kScales; ++k) {
    squares[k] = scales[k] * (8.0F * scales[k] - sum_of_all - 2.0F * (beyond[k][0] + beyond[k][1]));
  }
  return near_the_least(squares, 0x1p-16F * (sum_of_all + 1.0F));
}

/// The best of the likely ones.
DIT_SHARED float best_scale(const float* x, std::uint32_t count, float top, std::uint32_t likely) {
  if ((likely & (likely - 1)) != 0) {
    return searched_scale(x, count, top, likely);
  }
  float best = int2_scale(top, 0);
  DIT_UNROLL
  for (std::uint32_t k = 1; k < Int2::kScales; ++k) {
    best = likely == 1U << k ? int2_scale(top, k) : best;
  }
  return best;
}

template <>
DIT_SHARED float scale_of_lane<Int2>(const float* x, std::uint32_t count, std::uint32_t largest) {
  const float top = float_of(largest) / 1.5F;
  return best_scale(x, count, top, count == kLaneNumbers ? likely_scales(x, largest, top) : kAllScales);
}

/// A group before its code: its scale, and whether it has a NaN or an infinity.
struct LaneScale {
  float scale = 0;
  bool broken = false;
};

/// `largest`: the group's largest magnitude; `scale`: its scale, where it has one.
template <class Scale>
DIT_SHARED LaneScale lane_scale_of(std::uint32_t largest, const Scale& scale) {
  LaneScale result;
  result.broken = largest >= kInfinity;
  if (!result.broken && largest != 0) {
    result.scale = scale();
  }
  result.scale = bits_of(result.scale) >> 23U == 0 ? 0.0F : result.scale;
  return result;
}

template <class Group>
DIT_SHARED LaneScale lane_scale(const float* x, std::uint32_t count) {
  const std::uint32_t largest = largest_of(x);
  return lane_scale_of(largest, [&] { return scale_of_lane<Group>(x, count, largest); });
}

// ---- Groups.

template <std::uint32_t words>
DIT_SHARED void to_words(const std::uint8_t* bytes, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words; ++i) {
    word[i] = bytes[4 * i] | static_cast<std::uint32_t>(bytes[4 * i + 1]) << 8U |
              static_cast<std::uint32_t>(bytes[4 * i + 2]) << 16U |
              static_cast<std::uint32_t>(bytes[4 * i + 3]) << 24U;
  }
}

/// The group's code; returns its scale's.
template <class Group>
DIT_SHARED std::uint8_t encode_lane(const float* x, const LaneScale& of, std::uint32_t top,
                                    std::uint32_t* word) {
  const std::uint8_t scale = of.broken ? kBrokenGroup : scale_code(of.scale, top);
  if (scale != 0 && !of.broken && of.scale != 0.0F) {
    quantise_lane(Group{}, x, 1.0F / of.scale, word);
    return scale;
  }
  DIT_UNROLL
  for (std::size_t i = 0; i < Group::kBytes / 4; ++i) {
    word[i] = 0;
  }
  // A segment of zeros has scales of 0, and codes of these that are not 0. Numbers over them are infinite or
  // NaN, which rounds to steps of 0 on processors.
  if (scale != 0 && !of.broken && !Group::kRounds) {
    std::uint8_t code[Group::kBytes];
    Group::quantise(x, 1.0F / of.scale, code);
    to_words<Group::kBytes / 4>(code, word);
  }
  return scale;
}

template <class Group>
DIT_SHARED void decode_lane(const std::uint32_t* word, std::uint8_t scale_byte, std::uint32_t top, float* x) {
  const float scale = scale_of(scale_byte, top);
  const bool nan = (bits_of(scale) & kMagnitude) > kInfinity;
  if (scale == 0.0F || (nan && Group::kBytes > Int1::kBytes)) {  // int1's numbers are made of bits
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      x[i] = nan ? float_of(kQuietNan) : 0.0F;
    }
  } else {
    restore_lane(Group{}, word, scale, x);
  }
}

}  // namespace
}  // namespace dit
