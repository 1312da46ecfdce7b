/// A lane's 32 numbers as a code of whole words, and back: the formats of group_codes.hpp, and numbers of 16
/// and 32 bits.
#pragma once

#include "wire/device/team.hpp"
#include "wire/group_codes.hpp"

namespace dit {

/// What a code's numbers are. WireFormat::full is the one of the element.
enum class LaneFormat : std::uint8_t { fp32, bf16, fp16, fp8, int8, int4, int2, int1 };
inline constexpr int kLaneFormats = 8;

inline constexpr std::uint32_t kLaneNumbers = 32;
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

// ---- Words from bytes and back.

template <std::uint32_t words>
DIT_SHARED void to_words(const std::uint8_t* bytes, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words; ++i) {
    word[i] = bytes[4 * i] | static_cast<std::uint32_t>(bytes[4 * i + 1]) << 8U |
              static_cast<std::uint32_t>(bytes[4 * i + 2]) << 16U |
              static_cast<std::uint32_t>(bytes[4 * i + 3]) << 24U;
  }
}
template <std::uint32_t words>
DIT_SHARED void to_bytes(const std::uint32_t* word, std::uint8_t* bytes) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < 4 * words; ++i) {
    bytes[i] = static_cast<std::uint8_t>(word[i / 4] >> (8 * (i % 4)));
  }
}

// ---- Groups with a scale.

DIT_SHARED std::uint32_t largest_of(const float* x) {
  std::uint32_t largest = 0;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// What Group::scale() gives, of a group of `count` numbers with zeros behind them.
template <class Group>
DIT_SHARED float scale_of_lane(const float* x, std::uint32_t count, std::uint32_t largest) {
  return Group::scale(x, count, largest);
}
/// One scale after the other, so that few numbers are held at once.
template <>
DIT_SHARED float scale_of_lane<Int2>(const float* x, std::uint32_t count, std::uint32_t largest) {
  const float top = float_of(largest) / 1.5F;
  constexpr float kFactors[Int2::kScales] = {1.0F, 0.875F, 0.75F, 0.65F, 0.55F, 0.45F};
  float best = 0;
  float least = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (std::size_t k = 0; k < Int2::kScales; ++k) {
    const float scale = rounded_scale(top * kFactors[k]);
    float lane[kLanes];
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const float first = i < count ? Int2::square_off(x[i], scale) : 0.0F;
      const float second = i + kLanes < count ? Int2::square_off(x[i + kLanes], scale) : 0.0F;
      lane[i] = first + second;
    }
    const float square = sum_of_lanes(lane);
    const bool better = k == 0 || square < least;
    best = better ? scale : best;
    least = better ? square : least;
  }
  return best;
}

/// A group before its code: its scale, and whether it has a NaN or an infinity.
struct LaneScale {
  float scale = 0;
  bool broken = false;
};

template <class Group>
DIT_SHARED LaneScale lane_scale(const float* x, std::uint32_t count) {
  const std::uint32_t largest = largest_of(x);
  LaneScale result;
  result.broken = largest >= kInfinity;
  if (!result.broken && largest != 0) {
    result.scale = scale_of_lane<Group>(x, count, largest);
  }
  result.scale = bits_of(result.scale) >> 23U == 0 ? 0.0F : result.scale;
  return result;
}

/// The group's code; returns its scale's.
template <class Group>
DIT_SHARED std::uint8_t encode_lane(const float* x, const LaneScale& of, std::uint32_t top,
                                    std::uint32_t* word) {
  const std::uint8_t scale = of.broken ? kBrokenGroup : scale_code(of.scale, top);
  std::uint8_t code[Group::kBytes];
  // A segment of zeros has scales of 0, and codes that are not 0: then 0 / 0 gives a NaN, whose lowest bits,
  // the code, are 0 on processors and not on GPUs.
  const bool nothing = Group::kRounds && of.scale == 0.0F;
  if (scale == 0 || of.broken || nothing) {
    DIT_UNROLL
    for (std::size_t i = 0; i < Group::kBytes; ++i) {
      code[i] = 0;
    }
  } else {
    Group::quantise(x, 1.0F / of.scale, code);
  }
  to_words<Group::kBytes / 4>(code, word);
  return scale;
}

template <class Group>
struct KeepsNan {
  static constexpr bool value = true;  // a product with NaN, on processors
};
template <>
struct KeepsNan<Int1> {
  static constexpr bool value = false;  // bits
};

template <class Group>
DIT_SHARED void decode_lane(const std::uint32_t* word, std::uint8_t scale_byte, std::uint32_t top, float* x) {
  const float scale = scale_of(scale_byte, top);
  std::uint8_t code[Group::kBytes];
  to_bytes<Group::kBytes / 4>(word, code);
  Group::restore(code, scale, x);
  const bool nan = (bits_of(scale) & kMagnitude) > kInfinity && KeepsNan<Group>::value;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    x[i] = scale == 0.0F ? 0.0F : nan ? float_of(kQuietNan) : x[i];
  }
}

// ---- Numbers of 16 and 32 bits, in the order in which they lie.

template <LaneFormat format>
DIT_SHARED void write_numbers(const float* x, std::uint32_t* word) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words_of(format); ++i) {
    if constexpr (format == LaneFormat::fp32) {
      word[i] = bits_of(x[i]);
    } else if constexpr (format == LaneFormat::bf16) {
      word[i] = narrowed(x[2 * i]) | static_cast<std::uint32_t>(narrowed(x[2 * i + 1])) << 16U;
    } else {
      word[i] = narrowed_fp16(x[2 * i]) | static_cast<std::uint32_t>(narrowed_fp16(x[2 * i + 1])) << 16U;
    }
  }
}

template <LaneFormat format>
DIT_SHARED void read_numbers(const std::uint32_t* word, float* x) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < words_of(format); ++i) {
    const auto low = static_cast<std::uint16_t>(word[i]);
    const auto high = static_cast<std::uint16_t>(word[i] >> 16U);
    if constexpr (format == LaneFormat::fp32) {
      x[i] = float_of(word[i]);
    } else if constexpr (format == LaneFormat::bf16) {
      x[2 * i] = widened(low);
      x[2 * i + 1] = widened(high);
    } else {
      x[2 * i] = widened_fp16(low);
      x[2 * i + 1] = widened_fp16(high);
    }
  }
}

}  // namespace
}  // namespace dit
