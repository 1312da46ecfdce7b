// The body of codec_portable.cpp, codec_avx2.cpp and codec_avx512.cpp: loops of a fixed length that the
// compiler turns into vector code. Uses nothing from the standard library: a function compiled for one
// instruction set must not be taken for all. DIT_KERNELS: the table's name, DIT_KERNELS_NAME: in words.
#pragma once

#include "wire/codec_kernels.hpp"

namespace dit {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000U;
constexpr std::uint32_t kMagnitude = 0x7fffffffU;
constexpr std::uint32_t kInfinity = 0x7f800000U;
constexpr std::uint32_t kQuietNan = 0x7fc00000U;
constexpr std::uint32_t kScaleMantissa = 0xfff00000U;  // of a scale: sign, exponent, 3 bits
// x + 1.5 * 2^23 has the nearest integer (of two, the even one) in its lowest bits.
constexpr float kRounder = 12582912.0F;
constexpr std::uint32_t kRounderBits = 0x4b400000U;

std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
float truncated_scale(float value) {
  return float_of(bits_of(value) & kScaleMantissa);
}
float rounded_scale(float value) {
  return float_of((bits_of(value) + 0x80000U) & kScaleMantissa);
}

std::uint32_t largest_magnitude(const float* x, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

// Sums of a group go by lanes, in an order that does not depend on the vector length.
constexpr std::size_t kLanes = 16;
template <std::size_t Half = kLanes / 2>
float sum_of_lanes(float* lane) {
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
  static constexpr std::size_t kBytes = 32;
  // A power of two: 64 to 127 steps to the largest magnitude, so that what was decoded finds the same scale.
  static float scale(const float* /*x*/, std::size_t /*count*/, std::uint32_t largest) {
    const std::uint32_t exponent = largest >> 23U;
    const std::uint32_t steps = (largest & 0x7fffffU) < 0x7f0000U ? 6 : 5;  // 127.5 of 2^6 would be 128
    return exponent > steps ? float_of((exponent - steps) << 23U) : 0.0F;
  }
  static void quantise(const float* x, float inverse, std::uint8_t* code) {
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      code[i] = static_cast<std::uint8_t>(bits_of(x[i] * inverse + kRounder) - kRounderBits);
    }
  }
  static void restore(const std::uint8_t* code, float scale, float* x) {
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      x[i] = static_cast<float>(static_cast<std::int8_t>(code[i])) * scale;
    }
  }
};

struct Int4 {
  static constexpr std::size_t kBytes = 16;
  // The largest magnitude becomes 7 steps: it is 6.6 to 7.425 of them, as scales lie at most 9/8 apart, and
  // what was decoded, 7 steps, finds the same scale, as they lie at least 16/15 apart.
  static float scale(const float* /*x*/, std::size_t /*count*/, std::uint32_t largest) {
    return truncated_scale(float_of(largest) / 6.6F);
  }
  // Byte i has elements i and i + 16.
  static void quantise(const float* x, float inverse, std::uint8_t* code) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      const std::uint32_t low = bits_of(x[i] * inverse + kRounder) - kRounderBits;
      const std::uint32_t high = bits_of(x[i + kBytes] * inverse + kRounder) - kRounderBits;
      code[i] = static_cast<std::uint8_t>((low & 15U) | (high << 4U));
    }
  }
  static void restore(const std::uint8_t* code, float scale, float* x) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      const std::int32_t byte = static_cast<std::int8_t>(code[i]);
      x[i] = static_cast<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(byte) << 28U) >> 28) *
             scale;
      x[i + kBytes] = static_cast<float>(byte >> 4) * scale;
    }
  }
};

struct Int2 {
  static constexpr std::size_t kBytes = 8;
  // Of some scales the one with the smallest error. The first one, of which the largest magnitude is 1.5, is
  // the one that was used where this was decoded before.
  static constexpr std::size_t kScales = 6;
  static float scale(const float* x, std::size_t count, std::uint32_t largest) {
    const float top = float_of(largest) / 1.5F;
    constexpr float kFactors[kScales] = {1.0F, 0.875F, 0.75F, 0.65F, 0.55F, 0.45F};
    float scales[kScales];
    float squares[kScales];
    for (std::size_t i = 0; i < kScales; ++i) {
      scales[i] = rounded_scale(top * kFactors[i]);
    }
    if (count == kWireGroup) {
      errors_of_group(x, scales, squares);
    }
    for (std::size_t i = 0; i < kScales && count < kWireGroup; ++i) {
      squares[i] = error(x, count, scales[i]);
    }
    float best = scales[0];
    float least = squares[0];
    for (std::size_t i = 1; i < kScales; ++i) {
      best = squares[i] < least ? scales[i] : best;
      least = squares[i] < least ? squares[i] : least;
    }
    return best;
  }
  // All scales at once: each number is loaded once, and sums of lanes go side by side.
  static void errors_of_group(const float* x, const float* scales, float* squares) {
    static_assert(kWireGroup == 2 * kLanes);
    float lane[kScales][kLanes];
    for (std::size_t k = 0; k < kScales; ++k) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        lane[k][i] = square_off(x[i], scales[k]) + square_off(x[kLanes + i], scales[k]);
      }
    }
    for (std::size_t k = 0; k < kScales; ++k) {
      squares[k] = sum_of_lanes(lane[k]);
    }
  }
  static float square_off(float value, float scale) {
    const float magnitude = float_of(bits_of(value) & kMagnitude);
    const float off = magnitude - (magnitude >= scale ? 1.5F * scale : 0.5F * scale);
    return off * off;
  }
  // Of a group that is not full: the zeros behind are nobody's.
  static float error(const float* x, std::size_t count, float scale) {
    float lane[kLanes] = {};
    for (std::size_t i = 0; i < count; ++i) {
      lane[i % kLanes] += square_off(x[i], scale);
    }
    return sum_of_lanes(lane);
  }
  // Byte i has elements i, i + 8, i + 16, i + 24. -1.5, -0.5, 0.5, 1.5 are 0 to 3.
  static void quantise(const float* x, float inverse, std::uint8_t* code) {
    std::uint32_t level[kWireGroup];
    for (std::size_t i = 0; i < kWireGroup; ++i) {
      const float v = x[i] * inverse;
      level[i] = (v > -1.0F ? 1U : 0U) + (v >= 0.0F ? 1U : 0U) + (v >= 1.0F ? 1U : 0U);
    }
    for (std::size_t i = 0; i < kBytes; ++i) {
      code[i] = static_cast<std::uint8_t>(level[i] | level[i + 8] << 2U | level[i + 16] << 4U |
                                          level[i + 24] << 6U);
    }
  }
  static void restore(const std::uint8_t* code, float scale, float* x) {
    for (std::size_t part = 0; part < 4; ++part) {
      for (std::size_t i = 0; i < kBytes; ++i) {
        const auto level = static_cast<std::int32_t>(code[i] >> (2 * part) & 3);
        x[part * kBytes + i] = (static_cast<float>(level) - 1.5F) * scale;
      }
    }
  }
};

struct Int1 {
  static constexpr std::size_t kBytes = 4;
  // Signs of the mean magnitude, which has the smallest squared error.
  static float scale(const float* x, std::size_t count, std::uint32_t /*largest*/) {
    float lane[kLanes] = {};
    const float each = 1.0F / static_cast<float>(kWireGroup);  // a power of two: no sum overflows
    for (std::size_t begin = 0; begin < kWireGroup; begin += kLanes) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        lane[i] += float_of(bits_of(x[begin + i]) & kMagnitude) * each;
      }
    }
    const float whole = sum_of_lanes(lane);
    return rounded_scale(count == kWireGroup ? whole : whole / (static_cast<float>(count) * each));
  }
  static void quantise(const float* x, float /*inverse*/, std::uint8_t* code) {
    std::uint32_t signs = 0;
    for (std::uint32_t i = 0; i < kWireGroup; ++i) {
      signs |= (bits_of(x[i]) >> 31U) << i;
    }
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      code[byte] = static_cast<std::uint8_t>(signs >> (8 * byte));
    }
  }
  static void restore(const std::uint8_t* code, float scale, float* x) {
    std::uint32_t signs = 0;
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      signs |= static_cast<std::uint32_t>(code[byte]) << (8 * byte);
    }
    const std::uint32_t magnitude = bits_of(scale);
    for (std::uint32_t i = 0; i < kWireGroup; ++i) {
      x[i] = float_of(magnitude | (signs >> i & 1U) << 31U);
    }
  }
};

// ---- Segments: the scales' largest exponent, a byte for each group's scale, the groups.

constexpr std::uint32_t kTopShift = 30;     // of the scale whose exponent is the segment's
constexpr std::uint8_t kBrokenGroup = 255;  // has a NaN or an infinity
constexpr std::size_t kMostGroups = kWireSegment / kWireGroup;

std::uint8_t scale_code(float scale, std::uint32_t top) {
  const std::uint32_t bits = bits_of(scale);
  const std::uint32_t shift = (bits >> 23U) + kTopShift;
  return shift < top ? 0 : static_cast<std::uint8_t>((shift - top) << 3U | (bits >> 20U & 7U));
}

float scale_of(std::uint8_t code, std::uint32_t top) {
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

template <typename Format>
void encode_segment(const float* x, std::size_t count, std::uint8_t* code) {
  const std::size_t groups = (count + kWireGroup - 1) / kWireGroup;
  float scales[kMostGroups];
  bool broken[kMostGroups];
  std::uint32_t top = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const float* values = x + group * kWireGroup;
    const std::size_t left = count - group * kWireGroup;
    const std::uint32_t largest = largest_magnitude(values, kWireGroup);
    broken[group] = largest >= kInfinity;
    scales[group] = broken[group] || largest == 0
                        ? 0.0F
                        : Format::scale(values, left < kWireGroup ? left : kWireGroup, largest);
    const std::uint32_t exponent = bits_of(scales[group]) >> 23U;
    scales[group] = exponent == 0 ? 0.0F : scales[group];
    top = exponent > top ? exponent : top;
  }
  code[0] = static_cast<std::uint8_t>(top);
  std::uint8_t* at = code + 1 + groups;
  for (std::size_t group = 0; group < groups; ++group, at += Format::kBytes) {
    const std::uint8_t scale = broken[group] ? kBrokenGroup : scale_code(scales[group], top);
    code[1 + group] = scale;
    if (scale == 0 || broken[group]) {
      for (std::size_t i = 0; i < Format::kBytes; ++i) {
        at[i] = 0;
      }
    } else {
      Format::quantise(x + group * kWireGroup, 1.0F / scales[group], at);
    }
  }
}

template <typename Format>
void decode_segment(const std::uint8_t* code, std::size_t count, float* x) {
  const std::size_t groups = (count + kWireGroup - 1) / kWireGroup;
  const std::uint8_t* at = code + 1 + groups;
  for (std::size_t group = 0; group < groups; ++group, at += Format::kBytes) {
    const float scale = scale_of(code[1 + group], code[0]);
    float* values = x + group * kWireGroup;
    if (scale == 0.0F) {
      for (std::size_t i = 0; i < kWireGroup; ++i) {
        values[i] = 0.0F;
      }
    } else {
      Format::restore(at, scale, values);
    }
  }
}

// ---- fp8 e4m3: 4 bits of exponent, 3 of mantissa, no infinity. The row's exponent makes its largest
// magnitude 256 to 448, or 224 to 256.

constexpr std::uint32_t kMostFp8Magnitude = 0x7f700000U;  // 1.875 * 2^127: rounds to what fp32 can hold
constexpr std::uint32_t kLeastRowExponent = 9;            // so that 2^-(exponent) is no denormal

std::uint32_t largest_finite(const float* x, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    const std::uint32_t finite = magnitude < kInfinity ? magnitude : 0;
    largest = finite > largest ? finite : largest;
  }
  return largest;
}

std::uint32_t row_exponent(std::uint32_t largest) {
  const std::uint32_t exponent = (largest >> 23U) + ((largest & 0x7fffffU) > 0x600000U ? 1U : 0U);
  return exponent < kLeastRowExponent ? kLeastRowExponent : exponent;
}

// The magnitude's 7 bits. Normal: the mantissa rounded to 3 bits, halves to even, and an exponent 120 below
// fp32's. Below 2^-6: multiples of 2^-9, which 2^14 has as its last place.
std::uint32_t fp8_magnitude(float value) {
  const std::uint32_t v = bits_of(value);
  const std::uint32_t normal = ((v + 0x7ffffU + (v >> 20U & 1U)) >> 20U) - (120U << 3U);
  const std::uint32_t small = bits_of(value + 16384.0F) - 0x46800000U;
  return value < 0.015625F ? small : normal;
}

void encode_fp8_row(const float* x, std::size_t count, std::uint8_t* code) {
  const std::uint32_t largest = largest_magnitude(x, count);
  const bool plain = largest <= kMostFp8Magnitude;
  const std::uint32_t exponent = row_exponent(plain ? largest : largest_finite(x, count));
  code[0] = static_cast<std::uint8_t>(exponent);
  const float factor = float_of((262U - exponent) << 23U);  // 2^(8 - (exponent - 127))
  if (plain) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = bits_of(x[i]);
      const std::uint32_t magnitude = fp8_magnitude(float_of(bits & kMagnitude) * factor);
      code[1 + i] = static_cast<std::uint8_t>(magnitude | (bits >> 24U & 0x80U));
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(x[i]);
    const std::uint32_t whole = bits & kMagnitude;
    const std::uint32_t limited = whole > kMostFp8Magnitude ? kMostFp8Magnitude : whole;
    const std::uint32_t magnitude = whole >= kInfinity ? 0x7fU : fp8_magnitude(float_of(limited) * factor);
    code[1 + i] = static_cast<std::uint8_t>(magnitude | (bits >> 24U & 0x80U));
  }
}

void decode_fp8_row(const std::uint8_t* code, std::size_t count, float* x) {
  const std::uint32_t exponent = code[0] < kLeastRowExponent ? kLeastRowExponent : code[0];
  const float scale = float_of((exponent - 8U) << 23U);  // 2^(exponent - 127 - 8)
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t byte = code[1 + i];
    const std::uint32_t magnitude = byte & 0x7fU;
    const float normal = float_of((magnitude << 20U) + (120U << 23U));
    const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0.001953125F;
    const float value = (magnitude < 8U ? small : normal) * scale;
    const std::uint32_t sound = magnitude == 0x7fU ? kQuietNan : bits_of(value);
    x[i] = float_of(sound | (byte & 0x80U) << 24U);
  }
}

void encode_fp8(const float* x, std::size_t rows, std::size_t row, std::uint8_t* code) {
  for (; rows > 0; --rows, x += row, code += 1 + row) {
    encode_fp8_row(x, row, code);
  }
}

void decode_fp8(const std::uint8_t* code, std::size_t rows, std::size_t row, float* x) {
  for (; rows > 0; --rows, x += row, code += 1 + row) {
    decode_fp8_row(code, row, x);
  }
}

// ---- bf16

void widen(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = float_of(static_cast<std::uint32_t>(from[i]) << 16U);
  }
}

void narrow(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(from[i]);
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
    const std::uint32_t nan = bits >> 16U | 0x40U;
    to[i] = static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? nan : rounded);
  }
}

// ---- fp16. Conditions are selects, so that the compiler makes vectors of them.

void widen_fp16(const std::uint16_t* from, std::size_t count, float* to) {
  constexpr float kExponents = 0x1p112F;  // between the exponents' zeros: also right for fp16's subnormals
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = from[i] & 0x7fffU;
    const std::uint32_t finite = bits_of(float_of(magnitude << 13U) * kExponents);
    const std::uint32_t other = magnitude << 13U | kInfinity;
    to[i] = float_of((magnitude < 0x7c00U ? finite : other) | (from[i] & 0x8000U) << 16U);
  }
}

// To nearest, halves to even; beyond the largest: the largest, as rounding by a codec is no overflow of the
// model's. Infinity stays.
void narrow_fp16(const float* from, std::size_t count, std::uint16_t* to) {
  constexpr std::uint32_t kLeastNormal = 0x38800000U;    // 2^-14
  constexpr std::uint32_t kBeyondLargest = 0x477ff000U;  // 65520: half way from 65504 to 65536
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(from[i]);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13U & 1U)) >> 13U;
    // The last bit of 0.5 is worth fp16's smallest number.
    const std::uint32_t small = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    const std::uint32_t finite = magnitude < kLeastNormal ? small : normal;
    const std::uint32_t not_finite = magnitude > kInfinity ? 0x7e00U : 0x7c00U;
    const std::uint32_t beyond = magnitude < kInfinity ? 0x7bffU : not_finite;
    const std::uint32_t code = magnitude < kBeyondLargest ? finite : beyond;
    to[i] = static_cast<std::uint16_t>(code | (bits >> 16U & 0x8000U));
  }
}

// ---- References: the upper 24 bits of an fp32, and what it last moved by in a byte: a sign, 6 bits of
// exponent, 1 of mantissa.

// To nearest, halves to even; beyond the largest: infinity.
std::uint32_t upper_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  return bits + 0x7fU + (bits >> 8U & 1U);
}
// NaN and infinity, also what would become one.
bool is_finite(float value) {
  return (upper_bits(value) & kMagnitude) < kInfinity && (bits_of(value) & kMagnitude) < kInfinity;
}
float remembered(const ReferenceParts& reference, std::size_t i) {
  return float_of(static_cast<std::uint32_t>(reference.value[i]) << 16U |
                  static_cast<std::uint32_t>(reference.digits[i]) << 8U);
}

constexpr std::int32_t kLeastChange = (127 - 40) << 1;  // below 2^-40 and a half: nothing
constexpr std::int32_t kMostChange = 127;               // 1.5 * 2^23

std::uint8_t change_code(float change) {
  const std::uint32_t bits = bits_of(change);
  const auto rounded = static_cast<std::int32_t>(((bits & kMagnitude) + 0x200000U) >> 22U) - kLeastChange;
  const std::int32_t least = rounded > 0 ? rounded : 0;
  const std::int32_t most = least < kMostChange ? least : kMostChange;
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(most) | (bits >> 24U & 0x80U));
}
float change_of(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fU;
  const std::uint32_t bits = (magnitude + static_cast<std::uint32_t>(kLeastChange)) << 22U;
  return float_of((magnitude > 0 ? bits : 0U) | (static_cast<std::uint32_t>(code) & 0x80U) << 24U);
}

void recall(const ReferenceParts& reference, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = remembered(reference, i);
  }
}

// What both ends expect.
void expect(const ReferenceParts& reference, float momentum, std::size_t count, float* values) {
  recall(reference, count, values);
  for (std::size_t i = 0; reference.change != nullptr && i < count; ++i) {
    values[i] += momentum * change_of(reference.change[i]);
  }
}

void residual(const float* x, const ReferenceParts& reference, float momentum, std::size_t count,
              float* result) {
  float expected[kWireSegment];
  expect(reference, momentum, count, expected);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = x[i] - expected[i];
  }
}

void replace(const float* x, std::size_t count, const ReferenceParts& reference) {
  for (std::size_t i = 0; reference.change != nullptr && i < count; ++i) {
    const float before = remembered(reference, i);
    const bool moves = is_finite(x[i]) && before != 0.0F;  // what comes from nothing will not do so again
    reference.change[i] = moves ? change_code(x[i] - before) : std::uint8_t{0};
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t next = is_finite(x[i]) ? upper_bits(x[i]) : bits_of(remembered(reference, i));
    reference.value[i] = static_cast<std::uint16_t>(next >> 16U);
    reference.digits[i] = static_cast<std::uint8_t>(next >> 8U);
  }
}

void advance(const float* step, float momentum, std::size_t count, const ReferenceParts& reference,
             float* x) {
  float next[kWireSegment];
  expect(reference, momentum, count, next);
  for (std::size_t i = 0; step != nullptr && i < count; ++i) {
    next[i] += step[i];
  }
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = next[i];
  }
  replace(next, count, reference);
}

// Of any number of values: rows may be longer than a segment.
float distance(const float* x, const ReferenceParts& reference, float momentum, std::size_t count) {
  float lane[kLanes] = {};
  for (std::size_t begin = 0; begin < count; begin += kLanes) {
    const std::size_t some = count - begin < kLanes ? count - begin : kLanes;
    float expected[kLanes] = {};
    expect(reference.from(begin), momentum, some, expected);
    for (std::size_t i = 0; i < some; ++i) {
      const float off = x[begin + i] - expected[i];
      lane[i] += off * off;
    }
  }
  return sum_of_lanes(lane);
}

}  // namespace

extern const CodecKernels DIT_KERNELS = {
    DIT_KERNELS_NAME,
    widen,
    narrow,
    widen_fp16,
    narrow_fp16,
    {encode_segment<Int8>, encode_segment<Int4>, encode_segment<Int2>, encode_segment<Int1>},
    {decode_segment<Int8>, decode_segment<Int4>, decode_segment<Int2>, decode_segment<Int1>},
    encode_fp8,
    decode_fp8,
    residual,
    advance,
    replace,
    recall,
    distance};

}  // namespace dit
