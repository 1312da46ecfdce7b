#include "plan/exact.hpp"

#include <cmath>

namespace tapa {

namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr double kRootOfHalf = 0.70710678118654752440;

}  // namespace

double binary_logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // 0.5 <= m < 1
  if (m < kRootOfHalf) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 (s + s^3/3 + s^5/5 + ...) with |s| < 0.172: ten terms are enough.
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int odd = 21; odd >= 1; odd -= 2) sum = sum * square + 1.0 / odd;
  return exponent + 2 * s * sum / kLn2;
}

double power_of_two(double x) {
  const double whole = std::floor(x + 0.5);
  // e^y = 1 + y (1 + y/2 (1 + y/3 (...))) with |y| < 0.347.
  const double y = (x - whole) * kLn2;
  double sum = 1;
  for (int n = 16; n >= 1; --n) sum = 1 + sum * y / n;
  return std::ldexp(sum, static_cast<int>(whole));
}

int root_above(int n, int degree) {
  int root = 1;
  for (; degree == 2 ? static_cast<long long>(root) * root < n
                     : static_cast<long long>(root) * root * root < n;)
    ++root;
  return root;
}

}  // namespace tapa
