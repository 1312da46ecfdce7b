/// The steps of a run under a wire policy: what travels in them, those in which V-Major leaves rows behind
/// and the others, and the mean of what is predicted for either.
#pragma once

#include <array>

#include "predict/replay.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// By AttentionTensor: of the bytes of full tensors what travels between nodes in a step, the mean of layers,
/// branches and levels.
using TensorShares = std::array<double, kAttentionTensors>;
[[nodiscard]] TensorShares tensor_shares(const WirePlan& plan, int step, WireElement element);

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

}  // namespace dit
