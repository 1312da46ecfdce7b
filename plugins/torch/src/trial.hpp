/// What exchanges take between these ranks, timed: exact ones, and whether a policy is worth it.
#pragma once

#include "dit_torch.h"
#include "group.hpp"

namespace dit::operators {

/// Seconds in which a layer's Q, K and V go out by exact transfers and the output comes back, of the slowest
/// rank. Where an eighth of the tokens takes longer than `enough`, eight times that. Collective, the same
/// result on all ranks; throws on all ranks alike.
[[nodiscard]] double exact_time(Group& group, const dit_torch_attention& attention, double enough);

/// Carries out an attention's transfers both ways, of exchanges made for it. What is no preset is not tried,
/// nor what leaves all links between these ranks alone: both pay. Collective, the same result on all ranks;
/// throws on all ranks alike.
[[nodiscard]] dit_torch_trial try_policy(Group& group, const dit_torch_attention& attention);

/// Beside a model coding takes multiprocessors (or processors) and launches from what else is computed, where
/// an exact exchange waits for links: so it is to win clearly.
[[nodiscard]] constexpr bool policy_pays(double exact_seconds, double policy_seconds) {
  return policy_seconds < 0.7 * exact_seconds;
}

}  // namespace dit::operators
