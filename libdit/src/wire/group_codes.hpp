// The formats of groups, for hosts and devices: the same bits from all. Its functions are each translation
// unit's own (codec_loops.hpp says why), and use nothing from the standard library.
#pragma once

#include "wire/number_codes.hpp"

namespace dit {
namespace {

// Sums of a group go by lanes, in an order that does not depend on the vector length.
constexpr std::size_t kLanes = 16;
template <std::size_t Half = kLanes / 2>
DIT_SHARED float sum_of_lanes(float* lane) {
  DIT_UNROLL
  for (std::size_t i = 0; i < Half; ++i) {
    lane[i] += lane[i + Half];
  }
  if constexpr (Half > 1) {
    return sum_of_lanes<Half / 2>(lane);
  } else {
    return lane[0];
  }
}

// ---- Formats of groups. scale(): the group's scale before it is coded, a number of 3 mantissa bits, from
// its largest magnitude, which is finite and not zero.

struct Int8 {
  static constexpr bool kRounds = true;  // numbers to the nearest steps: a NaN has a code
  static constexpr std::size_t kBytes = 32;
  // A power of two: 64 to 127 steps to the largest magnitude, so that what was decoded finds the same scale.
  DIT_SHARED static float scale(const float* /*x*/, std::size_t /*count*/, std::uint32_t largest) {
    const std::uint32_t exponent = largest >> 23U;
    const std::uint32_t steps = (largest & 0x7fffffU) < 0x7f0000U ? 6 : 5;  // 127.5 of 2^6 would be 128
    return exponent > steps ? float_of((exponent - steps) << 23U) : 0.0F;
  }
  DIT_SHARED static void quantise(const float* x, float inverse, std::uint8_t* code) {
    DIT_UNROLL
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      code[i] = static_cast<std::uint8_t>(bits_of(x[i] * inverse + kRounder) - kRounderBits);
    }
  }
  DIT_SHARED static void restore(const std::uint8_t* code, float scale, float* x) {
    DIT_UNROLL
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      x[i] = static_cast<float>(static_cast<std::int8_t>(code[i])) * scale;
    }
  }
};

struct Int4 {
  static constexpr bool kRounds = true;
  static constexpr std::size_t kBytes = 16;
  // The largest magnitude becomes 7 steps: it is 6.6 to 7.425 of them, as scales lie at most 9/8 apart, and
  // what was decoded, 7 steps, finds the same scale, as they lie at least 16/15 apart.
  DIT_SHARED static float scale(const float* /*x*/, std::size_t /*count*/, std::uint32_t largest) {
    return truncated_scale(float_of(largest) / 6.6F);
  }
  // Byte i has elements i and i + 16.
  DIT_SHARED static void quantise(const float* x, float inverse, std::uint8_t* code) {
    DIT_UNROLL
    for (std::size_t i = 0; i < kBytes; ++i) {
      const std::uint32_t low = bits_of(x[i] * inverse + kRounder) - kRounderBits;
      const std::uint32_t high = bits_of(x[i + kBytes] * inverse + kRounder) - kRounderBits;
      code[i] = static_cast<std::uint8_t>((low & 15U) | (high << 4U));
    }
  }
  DIT_SHARED static void restore(const std::uint8_t* code, float scale, float* x) {
    DIT_UNROLL
    for (std::size_t i = 0; i < kBytes; ++i) {
      const std::int32_t byte = static_cast<std::int8_t>(code[i]);  // NOLINT(bugprone-signed-char-misuse)
      x[i] = static_cast<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(byte) << 28U) >> 28) *
             scale;
      x[i + kBytes] = static_cast<float>(byte >> 4) * scale;
    }
  }
};

struct Int2 {
  static constexpr bool kRounds = false;
  static constexpr std::size_t kBytes = 8;
  // Of some scales the one with the smallest error. The first one, of which the largest magnitude is 1.5, is
  // the one that was used where this was decoded before.
  static constexpr std::size_t kScales = 6;
  DIT_SHARED static float scale(const float* x, std::size_t count, std::uint32_t largest) {
    const float top = float_of(largest) / 1.5F;
    constexpr float kFactors[kScales] = {1.0F, 0.875F, 0.75F, 0.65F, 0.55F, 0.45F};
    float scales[kScales];
    float squares[kScales];
    DIT_UNROLL
    for (std::size_t i = 0; i < kScales; ++i) {
      scales[i] = rounded_scale(top * kFactors[i]);
    }
    if (count == kWireGroup) {
      errors_of_group(x, scales, squares);
    }
    DIT_UNROLL
    for (std::size_t i = 0; i < kScales && count < kWireGroup; ++i) {
      squares[i] = error(x, count, scales[i]);
    }
    float best = scales[0];
    float least = squares[0];
    DIT_UNROLL
    for (std::size_t i = 1; i < kScales; ++i) {
      best = squares[i] < least ? scales[i] : best;
      least = squares[i] < least ? squares[i] : least;
    }
    return best;
  }
  // All scales at once: each number is loaded once, and sums of lanes go side by side.
  DIT_SHARED static void errors_of_group(const float* x, const float* scales, float* squares) {
    static_assert(kWireGroup == 2 * kLanes);
    float lane[kScales][kLanes];
    DIT_UNROLL
    for (std::size_t k = 0; k < kScales; ++k) {
      DIT_UNROLL
      for (std::size_t i = 0; i < kLanes; ++i) {
        lane[k][i] = square_off(x[i], scales[k]) + square_off(x[kLanes + i], scales[k]);
      }
    }
    DIT_UNROLL
    for (std::size_t k = 0; k < kScales; ++k) {
      squares[k] = sum_of_lanes(lane[k]);
    }
  }
  DIT_SHARED static float square_off(float value, float scale) {
    const float magnitude = float_of(bits_of(value) & kMagnitude);
    const float off = magnitude - (magnitude >= scale ? 1.5F * scale : 0.5F * scale);
    return off * off;
  }
  // Of a group that is not full: the zeros behind are nobody's.
  DIT_SHARED static float error(const float* x, std::size_t count, float scale) {
    float lane[kLanes] = {};
    DIT_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      lane[i % kLanes] += square_off(x[i], scale);
    }
    return sum_of_lanes(lane);
  }
  // Byte i has elements i, i + 8, i + 16, i + 24. -1.5, -0.5, 0.5, 1.5 are 0 to 3.
  DIT_SHARED static void quantise(const float* x, float inverse, std::uint8_t* code) {
    std::uint32_t level[kWireGroup];
    DIT_UNROLL
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      const float v = x[i] * inverse;
      level[i] = (v > -1.0F ? 1U : 0U) + (v >= 0.0F ? 1U : 0U) + (v >= 1.0F ? 1U : 0U);
    }
    DIT_UNROLL
    for (std::size_t i = 0; i < kBytes; ++i) {
      code[i] = static_cast<std::uint8_t>(level[i] | level[i + 8] << 2U | level[i + 16] << 4U |
                                          level[i + 24] << 6U);
    }
  }
  DIT_SHARED static void restore(const std::uint8_t* code, float scale, float* x) {
    DIT_UNROLL
    for (std::size_t part = 0; part < 4; ++part) {
      DIT_UNROLL
      for (std::size_t i = 0; i < kBytes; ++i) {
        const auto level = static_cast<std::int32_t>(code[i] >> (2 * part) & 3);
        x[part * kBytes + i] = (static_cast<float>(level) - 1.5F) * scale;
      }
    }
  }
};

struct Int1 {
  static constexpr bool kRounds = false;
  static constexpr std::size_t kBytes = 4;
  // Signs of the mean magnitude, which has the smallest squared error.
  DIT_SHARED static float scale(const float* x, std::size_t count, std::uint32_t /*largest*/) {
    float lane[kLanes] = {};
    const float each = 1.0F / static_cast<float>(kWireGroup);  // a power of two: no sum overflows
    DIT_UNROLL
    for (std::size_t begin = 0; begin < kWireGroup; begin += kLanes) {
      DIT_UNROLL
      for (std::size_t i = 0; i < kLanes; ++i) {
        lane[i] += float_of(bits_of(x[begin + i]) & kMagnitude) * each;
      }
    }
    const float whole = sum_of_lanes(lane);
    return rounded_scale(count == kWireGroup ? whole : whole / (static_cast<float>(count) * each));
  }
  DIT_SHARED static void quantise(const float* x, float /*inverse*/, std::uint8_t* code) {
    std::uint32_t signs = 0;
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWireGroup; ++i) {
      signs |= (bits_of(x[i]) >> 31U) << i;
    }
    DIT_UNROLL
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      code[byte] = static_cast<std::uint8_t>(signs >> (8 * byte));
    }
  }
  DIT_SHARED static void restore(const std::uint8_t* code, float scale, float* x) {
    std::uint32_t signs = 0;
    DIT_UNROLL
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      signs |= static_cast<std::uint32_t>(code[byte]) << (8 * byte);
    }
    const std::uint32_t magnitude = bits_of(scale);
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWireGroup; ++i) {
      x[i] = float_of(magnitude | (signs >> i & 1U) << 31U);
    }
  }
};

// ---- Segments: the scales' largest exponent, a byte for each group's scale, the groups.

constexpr std::uint32_t kTopShift = 30;     // of the scale whose exponent is the segment's
constexpr std::uint8_t kBrokenGroup = 255;  // has a NaN or an infinity
constexpr std::size_t kMostGroups = kWireSegment / kWireGroup;

DIT_SHARED std::uint8_t scale_code(float scale, std::uint32_t top) {
  const std::uint32_t bits = bits_of(scale);
  const std::uint32_t shift = (bits >> 23U) + kTopShift;
  return shift < top ? 0 : static_cast<std::uint8_t>((shift - top) << 3U | (bits >> 20U & 7U));
}

DIT_SHARED float scale_of(std::uint8_t code, std::uint32_t top) {
  const std::uint32_t exponent = top + (code >> 3U);
  if (code == 0 || exponent <= kTopShift) {
    return 0.0F;
  }
  if (code == kBrokenGroup ||
      exponent >= kTopShift + 255) {  // the second only from bytes that nobody encoded
    return float_of(kQuietNan);
  }
  return float_of((exponent - kTopShift) << 23U | (code & 7U) << 20U);
}

}  // namespace
}  // namespace dit
