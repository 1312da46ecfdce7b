/// A lane's part of rows in fp8: rows may begin anywhere in it.
#pragma once

#include "wire/device/code_stream.hpp"
#include "wire/device/packed_groups.hpp"

namespace dit {
namespace {

template <std::uint32_t words>
DIT_SHARED void to_bytes(const std::uint32_t* word, std::uint8_t* bytes) {
  DIT_UNROLL
  for (std::uint32_t i = 0; i < 4 * words; ++i) {
    bytes[i] = static_cast<std::uint8_t>(word[i / 4] >> (8 * (i % 4)));
  }
}

/// Calls work(i, row) for a lane's first `count` numbers in order, with the row of the segment that each is
/// in.
template <class Work>
DIT_SHARED void for_numbers_of_rows(std::uint32_t lane, const Divisor& row, std::uint32_t count,
                                    const Work& work) {
  const std::uint32_t first = lane * kLaneNumbers;
  std::uint32_t of_row = quotient(first, row);
  std::uint32_t left = row.value - (first - of_row * row.value);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    if (i < count) {
      if (left == 0) {
        ++of_row;
        left = row.value;
      }
      --left;
      work(i, of_row);
    }
  }
}

DIT_SHARED std::uint32_t finite_magnitude(float x) {
  const std::uint32_t magnitude = bits_of(x) & kMagnitude;
  return magnitude < kInfinity ? magnitude : 0;
}

/// The row of a lane's numbers, where all are of one.
struct LaneRow {
  std::uint32_t row;
  bool whole;
};
DIT_SHARED LaneRow row_of_lane(std::uint32_t lane, const Divisor& row, std::uint32_t count) {
  const std::uint32_t first = lane * kLaneNumbers;
  const std::uint32_t of_row = quotient(first, row);
  return {of_row, first - of_row * row.value + count <= row.value};
}

/// The exponent that a row asks for that has these numbers alone.
DIT_SHARED std::uint32_t exponent_of_lane(const float* x) {
  std::uint32_t largest = largest_of(x);
  if (largest >= kInfinity) {
    largest = 0;
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      const std::uint32_t magnitude = finite_magnitude(x[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
  }
  return row_exponent(largest);
}

/// Raises the rows' exponents to what the lane's numbers ask for.
template <class Team>
DIT_SHARED void raise_exponents(Team& team, std::uint32_t lane, const Divisor& row, std::uint32_t count,
                                const float* x, std::uint32_t* exponents) {
  if (count == 0) {
    return;
  }
  const LaneRow own = row_of_lane(lane, row, count);
  if (own.whole) {  // what is behind the last number is zero
    return team.raise(exponents + own.row, exponent_of_lane(x));
  }
  std::uint32_t largest = 0;
  std::uint32_t last = own.row;
  for_numbers_of_rows(lane, row, count, [&](std::uint32_t i, std::uint32_t of_row) {
    if (of_row != last) {
      team.raise(exponents + last, row_exponent(largest));
      last = of_row;
      largest = 0;
    }
    const std::uint32_t magnitude = finite_magnitude(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  });
  team.raise(exponents + last, row_exponent(largest));
}

DIT_SHARED void encode_fp8_lane(std::uint32_t lane, const Divisor& row, std::uint32_t count, const float* x,
                                const std::uint32_t* exponents, std::uint32_t* word) {
  const LaneRow own = row_of_lane(lane, row, count);
  if (own.whole && largest_of(x) <= kMostFp8Magnitude) {
    const float factor = fp8_factor(count > 0 ? exponents[own.row] : kLeastRowExponent);
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 8; ++w) {
      word[w] =
          four_fp8(x[4 * w] * factor, x[4 * w + 1] * factor, x[4 * w + 2] * factor, x[4 * w + 3] * factor);
    }
    return;
  }
  std::uint8_t code[kLaneNumbers] = {};
  for_numbers_of_rows(lane, row, count, [&](std::uint32_t i, std::uint32_t of_row) {
    code[i] = fp8_code(x[i], fp8_factor(exponents[of_row]));
  });
  to_words<kLaneNumbers / 4>(code, word);
}

/// Whether a code of four bytes has a NaN.
DIT_SHARED bool has_fp8_nan(std::uint32_t codes) {
  return (((codes & 0x7f7f7f7fU) + 0x01010101U) & 0x80808080U) != 0;
}

/// `exponents`: as they came, of any value.
DIT_SHARED void decode_fp8_lane(std::uint32_t lane, const Divisor& row, std::uint32_t count,
                                const std::uint32_t* word, const std::uint32_t* exponents, float* x) {
  const LaneRow own = row_of_lane(lane, row, count);
  bool plain = own.whole && count > 0;
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    plain = plain && !has_fp8_nan(word[w]);
  }
  if (plain) {
    const float scale = fp8_scale(static_cast<std::uint8_t>(exponents[own.row]));
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 8; ++w) {
      from_four_fp8(word[w], x + 4 * w);
    }
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      x[i] = x[i] * scale;
    }
    return;
  }
  std::uint8_t code[kLaneNumbers];
  to_bytes<kLaneNumbers / 4>(word, code);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    x[i] = 0;
  }
  for_numbers_of_rows(lane, row, count, [&](std::uint32_t i, std::uint32_t of_row) {
    x[i] = fp8_value(code[i], fp8_scale(static_cast<std::uint8_t>(exponents[of_row])));
  });
}

// ---- Of bf16 numbers, two in a word.

DIT_SHARED std::uint32_t exponent_of_packed(const std::uint32_t* word) {
  const std::uint32_t largest = largest_of_packed(word);
  if (largest < kInfinity) {
    return row_exponent(largest);
  }
  float x[kLaneNumbers];
  unpack(word, x);
  return exponent_of_lane(x);
}

/// encode_fp8_lane() of numbers that are all of one row.
DIT_SHARED void encode_fp8_packed(const std::uint32_t* word, std::uint32_t exponent, std::uint32_t* code) {
  const float factor = fp8_factor(exponent);
  float x[kLaneNumbers];
  unpack(word, x);
  if (largest_of_packed(word) <= kMostFp8Magnitude) {
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 8; ++w) {
      code[w] =
          four_fp8(x[4 * w] * factor, x[4 * w + 1] * factor, x[4 * w + 2] * factor, x[4 * w + 3] * factor);
    }
    return;
  }
  std::uint8_t bytes[kLaneNumbers];
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    bytes[i] = fp8_code(x[i], factor);
  }
  to_words<kLaneNumbers / 4>(bytes, code);
}

/// decode_fp8_lane() of one row, and the numbers in bf16. Scales up to 2^100 keep all numbers finite.
DIT_SHARED void decode_fp8_packed(const std::uint32_t* code, std::uint8_t exponent, std::uint32_t* word) {
  const float scale = fp8_scale(exponent);
  bool plain = scale <= 0x1p100F;
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    plain = plain && !has_fp8_nan(code[w]);
  }
  DIT_UNROLL
  for (std::uint32_t w = 0; w < 8; ++w) {
    if (plain) {
      float x[4];
      from_four_fp8(code[w], x);
      word[2 * w] = two_bf16(x[0] * scale, x[1] * scale);
      word[2 * w + 1] = two_bf16(x[2] * scale, x[3] * scale);
    }
  }
  if (!plain) {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneWords; ++i) {
      const std::uint32_t two = code[i / 2] >> (16 * (i % 2));
      word[i] = narrowed(fp8_value(two & 0xffU, scale)) |
                static_cast<std::uint32_t>(narrowed(fp8_value(two >> 8U & 0xffU, scale))) << 16U;
    }
  }
}

}  // namespace
}  // namespace dit
