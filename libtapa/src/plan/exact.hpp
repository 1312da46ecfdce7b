/// @file
/// The functions that ranking needs, with the same result on every processor. Ranks rank plans each for
/// itself, and a job may run on unlike processors; the C library takes other code for log, exp and pow where
/// there are fused multiply-adds, and its last digits differ. IEEE 754 fixes the results of + - * / and sqrt,
/// of conversions, floor, ceil, frexp and ldexp to the last bit: one binary that uses only these decides
/// alike everywhere.
#pragma once

namespace tapa {

/// Base-2 logarithm of a positive normal number, to about 1e-15.
[[nodiscard]] double binary_logarithm(double x);

/// 2^x for |x| < 1000, to about 1e-15; exact for whole numbers.
[[nodiscard]] double power_of_two(double x);

/// The smallest whole number whose square (`degree` 2) or cube (3) is at least n; n >= 1.
[[nodiscard]] int root_above(int n, int degree);

}  // namespace tapa
