/// Wire policies from profiles: for each tensor, layer and step the mode that loses least for its bytes.
/// Pure.
#pragma once

#include <functional>
#include <vector>

#include "profile/redundancy.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

struct FoundPolicy {
  WirePolicy policy;
  double bytes = 1;  ///< of what 16-bit numbers take
  double noise = 0;  ///< mean over tensors, layers and steps of the squared relative errors
};

/// The policy that minimises noise + price * bits. Larger prices: fewer bytes, more noise.
[[nodiscard]] FoundPolicy policy_for_price(const RedundancyProfile& profile, double price);
/// The least noise with at most so many bytes (of what 16-bit numbers take). Throws std::invalid_argument
/// when nothing takes that few.
[[nodiscard]] FoundPolicy policy_for_bytes(const RedundancyProfile& profile, double bytes);
/// The fewest bytes with at most so much noise. Throws std::invalid_argument when all make more.
[[nodiscard]] FoundPolicy policy_for_noise(const RedundancyProfile& profile, double noise);

}  // namespace dit
