/// A lane's part of rows in fp8: rows may begin anywhere in it.
#pragma once

#include "wire/device/code_stream.hpp"

namespace dit {
namespace {

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

/// Raises the rows' exponents to what the lane's numbers ask for.
template <class Team>
DIT_SHARED void raise_exponents(Team& team, std::uint32_t lane, const Divisor& row, std::uint32_t count,
                                const float* x, std::uint32_t* exponents) {
  std::uint32_t largest = 0;
  std::uint32_t last = quotient(lane * kLaneNumbers, row);
  for_numbers_of_rows(lane, row, count, [&](std::uint32_t i, std::uint32_t of_row) {
    if (of_row != last) {
      team.raise(exponents + last, row_exponent(largest));
      last = of_row;
      largest = 0;
    }
    const std::uint32_t magnitude = finite_magnitude(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  });
  if (count > 0) {
    team.raise(exponents + last, row_exponent(largest));
  }
}

DIT_SHARED void encode_fp8_lane(std::uint32_t lane, const Divisor& row, std::uint32_t count, const float* x,
                                const std::uint32_t* exponents, std::uint32_t* word) {
  std::uint8_t code[kLaneNumbers] = {};
  for_numbers_of_rows(lane, row, count, [&](std::uint32_t i, std::uint32_t of_row) {
    code[i] = fp8_code(x[i], fp8_factor(exponents[of_row]));
  });
  to_words<kLaneNumbers / 4>(code, word);
}

/// `exponents`: as they came, of any value.
DIT_SHARED void decode_fp8_lane(std::uint32_t lane, const Divisor& row, std::uint32_t count,
                                const std::uint32_t* word, const std::uint32_t* exponents, float* x) {
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

}  // namespace
}  // namespace dit
