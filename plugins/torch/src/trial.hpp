/// Whether a policy is worth it between these ranks: it and exact transfers, timed.
#pragma once

#include "dit_torch.h"
#include "group.hpp"

namespace dit::operators {

/// Carries out an attention's transfers both ways, of exchanges made for it. What is no preset is not tried,
/// nor what leaves all links between these ranks alone: both pay. Collective, the same result on all ranks;
/// throws on all ranks alike.
[[nodiscard]] dit_torch_trial try_policy(Group& group, const dit_torch_attention& attention);

/// Coding takes multiprocessors (or processors) from what else is computed, so that it is to win clearly.
[[nodiscard]] constexpr bool policy_pays(double exact_seconds, double policy_seconds) {
  return policy_seconds < 0.95 * exact_seconds;
}

}  // namespace dit::operators
