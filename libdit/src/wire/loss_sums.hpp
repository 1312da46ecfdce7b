/// What the far end of a block lacks: squares of its numbers' differences to what is remembered of them,
/// summed in one order on processors and devices. The sums have the same bits, so that a policy's guard
/// decides alike.
///
/// 32 numbers that follow each other are summed one after the other; 32 such groups, a segment, by halves;
/// segments by 256 lanes, lane i those from number i on, 256 apart, and lanes by halves.
#pragma once

#include "wire/number_codes.hpp"

namespace dit {

/// Squares, summed.
struct BlockLoss {
  double error = 0;
  double whole = 0;  ///< of the numbers themselves
};

inline constexpr std::uint32_t kLossLanes = 256;

namespace {

DIT_SHARED BlockLoss sum_of(const BlockLoss& a, const BlockLoss& b) {
  return {a.error + b.error, a.whole + b.whole};
}

/// Of up to 32 numbers. A square of a float is exact in a double.
DIT_SHARED BlockLoss loss_of_group(const float* numbers, const float* remembered, std::uint32_t count) {
  BlockLoss loss;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kWireGroup; ++i) {
    if (i < count) {
      const auto number = static_cast<double>(numbers[i]);
      const auto off = static_cast<double>(numbers[i] - remembered[i]);
      loss.error += off * off;
      loss.whole += number * number;
    }
  }
  return loss;
}

}  // namespace
}  // namespace dit
