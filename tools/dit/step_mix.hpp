/// @file
/// Full and selective steps of a V-Major run, and the mean of what is predicted for either.
#pragma once

#include "schedule/order.hpp"
#include "wire/v_major.hpp"

namespace dit::tool {

struct StepMix {
  double full_share = 1;  ///< of the steps
  double active = 1;      ///< mean fraction of rows of a selective step
};
[[nodiscard]] StepMix mix_of(const VMajorPolicy& policy, int steps);

/// `share` of the one and the rest of the other.
[[nodiscard]] Prediction mixed(const Prediction& a, const Prediction& b, double share);

}  // namespace dit::tool
