/// @file
/// The median of measured times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dit {

/// The middle one of the values, of an even number the upper one of the two: always a value that was
/// measured. Precondition: there is one.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace dit
