/// @file
/// The steps of a run under a wire policy: those in which V-Major leaves rows behind and the others, what
/// travels in them, and the mean of what is predicted for either.
#pragma once

#include "schedule/order.hpp"
#include "wire/wire_policy.hpp"

namespace dit::tool {

/// Of the bytes of tensors what travels between nodes.
struct WireShares {
  double scatter = 1;  ///< of Q, K and V
  double output = 1;
};

struct StepMix {
  double full_share = 1;       ///< of the steps: V-Major leaves no rows
  WireShares full, selective;  ///< means of the steps
};
[[nodiscard]] StepMix mix_of(const WirePolicy& policy, int layers, int steps, WireElement element);

/// `share` of the one and the rest of the other.
[[nodiscard]] Prediction mixed(const Prediction& a, const Prediction& b, double share);

}  // namespace dit::tool
