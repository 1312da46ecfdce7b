// The arithmetic of single numbers, for hosts and devices: the same bits from all. Its functions are each
// translation unit's own (codec_loops.hpp says why), and use nothing from the standard library.
#pragma once

#include "wire/wire_formats.hpp"

#ifdef __CUDACC__
#define DIT_SHARED __host__ __device__ __forceinline__
#define DIT_UNROLL _Pragma("unroll")
#else
#define DIT_SHARED inline
#define DIT_UNROLL
#endif

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

DIT_SHARED std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
DIT_SHARED float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
DIT_SHARED float truncated_scale(float value) {
  return float_of(bits_of(value) & kScaleMantissa);
}
DIT_SHARED float rounded_scale(float value) {
  return float_of((bits_of(value) + 0x80000U) & kScaleMantissa);
}

// ---- 16 bits

DIT_SHARED float widened(std::uint16_t bf16) {
  return float_of(static_cast<std::uint32_t>(bf16) << 16U);
}
DIT_SHARED std::uint16_t narrowed(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  const std::uint32_t nan = bits >> 16U | 0x40U;
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? nan : rounded);
}

// Conditions are selects, so that the compiler makes vectors of them.
DIT_SHARED float widened_fp16(std::uint16_t fp16) {
  constexpr float kExponents = 0x1p112F;  // between the exponents' zeros: also right for fp16's subnormals
  const std::uint32_t magnitude = fp16 & 0x7fffU;
  const std::uint32_t finite = bits_of(float_of(magnitude << 13U) * kExponents);
  const std::uint32_t other = magnitude << 13U | kInfinity;
  return float_of((magnitude < 0x7c00U ? finite : other) | (fp16 & 0x8000U) << 16U);
}
// To nearest, halves to even; beyond the largest: the largest, as rounding by a codec is no overflow of the
// model's. Infinity stays.
DIT_SHARED std::uint16_t narrowed_fp16(float value) {
  constexpr std::uint32_t kLeastNormal = 0x38800000U;    // 2^-14
  constexpr std::uint32_t kBeyondLargest = 0x477ff000U;  // 65520: half way from 65504 to 65536
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & kMagnitude;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13U & 1U)) >> 13U;
  // The last bit of 0.5 is worth fp16's smallest number.
  const std::uint32_t small = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
  const std::uint32_t finite = magnitude < kLeastNormal ? small : normal;
  const std::uint32_t not_finite = magnitude > kInfinity ? 0x7e00U : 0x7c00U;
  const std::uint32_t beyond = magnitude < kInfinity ? 0x7bffU : not_finite;
  const std::uint32_t code = magnitude < kBeyondLargest ? finite : beyond;
  return static_cast<std::uint16_t>(code | (bits >> 16U & 0x8000U));
}

// ---- fp8 e4m3: 4 bits of exponent, 3 of mantissa, no infinity. The row's exponent makes its largest
// magnitude 256 to 448, or 224 to 256.

constexpr std::uint32_t kMostFp8Magnitude = 0x7f700000U;  // 1.875 * 2^127: rounds to what fp32 can hold
constexpr std::uint32_t kLeastRowExponent = 9;            // so that 2^-(exponent) is no denormal

DIT_SHARED std::uint32_t row_exponent(std::uint32_t largest) {
  const std::uint32_t exponent = (largest >> 23U) + ((largest & 0x7fffffU) > 0x600000U ? 1U : 0U);
  return exponent < kLeastRowExponent ? kLeastRowExponent : exponent;
}

// The magnitude's 7 bits. Normal: the mantissa rounded to 3 bits, halves to even, and an exponent 120 below
// fp32's. Below 2^-6: multiples of 2^-9, which 2^14 has as its last place.
DIT_SHARED std::uint32_t fp8_magnitude(float value) {
  const std::uint32_t v = bits_of(value);
  const std::uint32_t normal = ((v + 0x7ffffU + (v >> 20U & 1U)) >> 20U) - (120U << 3U);
  const std::uint32_t small = bits_of(value + 16384.0F) - 0x46800000U;
  return value < 0.015625F ? small : normal;
}

// `factor`: 2^8 over the row's exponent. Also of what is not finite, or larger than what rows can hold.
DIT_SHARED std::uint8_t fp8_code(float value, float factor) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t whole = bits & kMagnitude;
  const std::uint32_t limited = whole > kMostFp8Magnitude ? kMostFp8Magnitude : whole;
  const std::uint32_t magnitude = whole >= kInfinity ? 0x7fU : fp8_magnitude(float_of(limited) * factor);
  return static_cast<std::uint8_t>(magnitude | (bits >> 24U & 0x80U));
}
DIT_SHARED float fp8_factor(std::uint32_t row_exponent) {
  return float_of((262U - row_exponent) << 23U);  // 2^(8 - (exponent - 127))
}

DIT_SHARED float fp8_value(std::uint32_t byte, float scale) {
  const std::uint32_t magnitude = byte & 0x7fU;
  const float normal = float_of((magnitude << 20U) + (120U << 23U));
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0.001953125F;
  const float value = (magnitude < 8U ? small : normal) * scale;
  const std::uint32_t sound = magnitude == 0x7fU ? kQuietNan : bits_of(value);
  return float_of(sound | (byte & 0x80U) << 24U);
}
DIT_SHARED float fp8_scale(std::uint8_t code) {
  const std::uint32_t exponent = code < kLeastRowExponent ? kLeastRowExponent : code;
  return float_of((exponent - 8U) << 23U);  // 2^(exponent - 127 - 8)
}

// ---- References: the upper 24 bits of an fp32, and what it last moved by in a byte: a sign, 6 bits of
// exponent, 1 of mantissa.

// To nearest, halves to even; beyond the largest: infinity.
DIT_SHARED std::uint32_t upper_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  return bits + 0x7fU + (bits >> 8U & 1U);
}
// Not NaN and infinity, nor what would become one: half a step below the largest number of upper bits.
DIT_SHARED bool is_finite(float value) {
  return (bits_of(value) & kMagnitude) < 0x7f7fff80U;
}

constexpr std::int32_t kLeastChange = (127 - 40) << 1;  // below 2^-40 and a half: nothing
constexpr std::int32_t kMostChange = 127;               // 1.5 * 2^23

DIT_SHARED std::uint8_t change_code(float change) {
  const std::uint32_t bits = bits_of(change);
  const auto rounded = static_cast<std::int32_t>(((bits & kMagnitude) + 0x200000U) >> 22U) - kLeastChange;
  const std::int32_t least = rounded > 0 ? rounded : 0;
  const std::int32_t most = least < kMostChange ? least : kMostChange;
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(most) | (bits >> 24U & 0x80U));
}
DIT_SHARED float change_of(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fU;
  const std::uint32_t bits = (magnitude + static_cast<std::uint32_t>(kLeastChange)) << 22U;
  return float_of((magnitude > 0 ? bits : 0U) | (static_cast<std::uint32_t>(code) & 0x80U) << 24U);
}

}  // namespace
}  // namespace dit
