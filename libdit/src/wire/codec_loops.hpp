// The body of codec_portable.cpp, codec_avx2.cpp, codec_avx512.cpp and codec_neon.cpp: loops of a fixed
// length that the compiler turns into vector code. Uses nothing from the standard library: a function
// compiled for one instruction set must not be taken for all. DIT_KERNELS: the table's name,
// DIT_KERNELS_NAME: in words.
#pragma once

#include "wire/codec_kernels.hpp"
#include "wire/group_codes.hpp"

namespace dit {
namespace {

std::uint32_t largest_magnitude(const float* x, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
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

std::uint32_t largest_finite(const float* x, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    const std::uint32_t finite = magnitude < kInfinity ? magnitude : 0;
    largest = finite > largest ? finite : largest;
  }
  return largest;
}

void encode_fp8_row(const float* x, std::size_t count, std::uint8_t* code) {
  const std::uint32_t largest = largest_magnitude(x, count);
  const bool plain = largest <= kMostFp8Magnitude;
  const std::uint32_t exponent = row_exponent(plain ? largest : largest_finite(x, count));
  code[0] = static_cast<std::uint8_t>(exponent);
  const float factor = fp8_factor(exponent);
  if (plain) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = bits_of(x[i]);
      const std::uint32_t magnitude = fp8_magnitude(float_of(bits & kMagnitude) * factor);
      code[1 + i] = static_cast<std::uint8_t>(magnitude | (bits >> 24U & 0x80U));
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    code[1 + i] = fp8_code(x[i], factor);
  }
}

void decode_fp8_row(const std::uint8_t* code, std::size_t count, float* x) {
  const float scale = fp8_scale(code[0]);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = fp8_value(code[1 + i], scale);
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

// ---- 16 bits

void widen(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = widened(from[i]);
  }
}

void narrow(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = narrowed(from[i]);
  }
}

void widen_fp16(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = widened_fp16(from[i]);
  }
}

void narrow_fp16(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = narrowed_fp16(from[i]);
  }
}

// ---- References.

float remembered(const ReferenceParts& reference, std::size_t i) {
  return float_of(static_cast<std::uint32_t>(reference.value[i]) << 16U |
                  static_cast<std::uint32_t>(reference.digits[i]) << 8U);
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
