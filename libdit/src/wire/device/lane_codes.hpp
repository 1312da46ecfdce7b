/// A lane's 32 numbers as a code of whole words, and back: the formats of group_codes.hpp, and numbers of 16
/// and 32 bits.
#pragma once

#include "wire/device/lane_groups.hpp"
#include "wire/device/team.hpp"

namespace dit {

/// What a code's numbers are. WireFormat::full is the one of the element.
enum class LaneFormat : std::uint8_t { fp32, bf16, fp16, fp8, int8, int4, int2, int1 };
inline constexpr int kLaneFormats = 8;

static_assert(kLaneNumbers == kWireGroup && kLaneNumbers * kTeamLanes == kWireSegment);

/// Whether a segment begins with its scales' exponent and a byte for each group.
[[nodiscard]] DIT_SHARED constexpr bool has_scales(LaneFormat format) {
  return format >= LaneFormat::int8;
}
/// Of a lane's code, without its scale and fp8's exponents.
[[nodiscard]] DIT_SHARED constexpr std::uint32_t words_of(LaneFormat format) {
  constexpr std::uint32_t kWords[kLaneFormats] = {32, 16, 16, 8, 8, 4, 2, 1};
  return kWords[static_cast<int>(format)];
}

namespace {

struct LaneNumbers {
  float x[kLaneNumbers];
};

// NaNs keep their bits, made quiet, as processors keep them; GPUs have only one. At most one of the two is a
// NaN.
DIT_SHARED float sum(float a, float b) {
  const float whole = a + b;
#ifdef __CUDA_ARCH__
  const bool broken = (bits_of(whole) & kMagnitude) > kInfinity;
  const std::uint32_t nan = (bits_of(b) & kMagnitude) > kInfinity ? bits_of(b) : bits_of(a);
  return broken ? float_of(nan | 0x400000U) : whole;
#else
  return whole;
#endif
}
DIT_SHARED float difference(float a, float b) {
#ifdef __CUDA_ARCH__
  const float rest = a - b;
  return (bits_of(a) & kMagnitude) > kInfinity ? float_of(bits_of(a) | 0x400000U) : rest;
#else
  return a - b;
#endif
}

// ---- Numbers of 16 and 32 bits, in the order in which they lie.

template <LaneFormat format>
DIT_SHARED void write_numbers(const float* x, std::uint32_t* word) {
  const bool finite = format == LaneFormat::fp32 || are_finite<kLaneNumbers>(x);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words_of(format); ++i) {
    if constexpr (format == LaneFormat::fp32) {
      word[i] = bits_of(x[i]);
    } else if constexpr (format == LaneFormat::bf16) {
      word[i] = two_bf16(x[2 * i], x[2 * i + 1]);
    } else {
      word[i] = two_fp16(x[2 * i], x[2 * i + 1]);
    }
  }
  if constexpr (format != LaneFormat::fp32) {
    DIT_UNROLL
    for (std::uint32_t i = 0; !finite && i < words_of(format); ++i) {
      const bool bf16 = format == LaneFormat::bf16;
      const std::uint32_t low = bf16 ? narrowed(x[2 * i]) : narrowed_fp16(x[2 * i]);
      const std::uint32_t high = bf16 ? narrowed(x[2 * i + 1]) : narrowed_fp16(x[2 * i + 1]);
      word[i] = low | high << 16U;
    }
  }
}

template <LaneFormat format>
DIT_SHARED void read_numbers(const std::uint32_t* word, float* x) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words_of(format); ++i) {
    if constexpr (format == LaneFormat::fp32) {
      x[i] = float_of(word[i]);
    } else if constexpr (format == LaneFormat::bf16) {
      x[2 * i] = float_of(word[i] << 16U);
      x[2 * i + 1] = float_of(word[i] & 0xffff0000U);
    } else {
      from_two_fp16(word[i], x[2 * i], x[2 * i + 1]);
    }
  }
  if constexpr (format == LaneFormat::fp16) {
    const bool finite = are_finite<kLaneNumbers>(x);
    DIT_UNROLL
    for (std::uint32_t i = 0; !finite && i < words_of(format); ++i) {
      x[2 * i] = widened_fp16(static_cast<std::uint16_t>(word[i]));
      x[2 * i + 1] = widened_fp16(static_cast<std::uint16_t>(word[i] >> 16U));
    }
  }
}

}  // namespace
}  // namespace dit
