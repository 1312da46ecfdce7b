/// Whether approximate runs make other fields than exact ones do, as physics sees them: each field's power
/// spectrum beside the spread of its class, and the class whose simulated fields it resembles most.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "field_set.hpp"
#include "field_statistics.hpp"

namespace dit::gray_scott {

/// Of one way to make the fields, against the first way.
struct WayComparison {
  std::string name;
  double spectrum_median = 0;  ///< spectrum_error of a field to the first way's with the same seed
  double spectrum_worst = 0;
  std::int64_t beyond_spread = 0;  ///< fields whose error is more than their class's spread
  std::int64_t named_right = 0;    ///< fields that the classifier names as their class
  std::int64_t named_as_first = 0;
};
struct FieldComparison {
  std::int64_t fields = 0;
  double spread_median = 0;  ///< over the classes
  std::vector<WayComparison> ways;
};

/// Fields of one way, in physical units.
struct WayFields {
  std::string name;
  at::Tensor fields;  ///< [count, channels, size, size], CPU
};

/// `labels`: [count], the same for all ways; `simulated`: at least three fields of each class, of the same
/// size: they teach the classifier, and a class's spread is the median spectrum_error between two of them.
/// Throws std::invalid_argument for other shapes.
[[nodiscard]] FieldComparison compare_fields(const std::vector<WayFields>& ways, const at::Tensor& labels,
                                             const FieldSet& simulated, std::int64_t classes);

}  // namespace dit::gray_scott
