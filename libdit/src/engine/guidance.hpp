/// Classifier-free guidance: which branches a rank computes, in which units of work.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "schedule/order.hpp"

namespace dit {

/// How the two branches of classifier-free guidance are computed.
enum class GuidanceMode {
  batched,     ///< both in each exchange
  sequential,  ///< exchanges of their own: one after the other, or under each other's computation
               ///< (`pipelined`)
  parallel     ///< one branch per half of the ranks; needs an even number of them
};
[[nodiscard]] GuidanceMode parse_guidance_mode(
    const std::string& name);  ///< throws std::invalid_argument that lists the names
[[nodiscard]] const char* to_string(GuidanceMode mode);

/// What a schedule profits from: `pipelined` overlaps one branch's exchanges with the other's computation.
[[nodiscard]] GuidanceMode default_guidance_mode(Schedule schedule);

/// The branches of one rank. Branch 0 is the conditional one.
struct BranchPlan {
  std::vector<std::vector<std::int64_t>> unit_labels;  ///< per unit, its samples' labels
  int partner = -1;         ///< the rank that computes the other branch; -1: this one computes all
  bool conditional = true;  ///< with a partner: which branch this rank computes
};
[[nodiscard]] BranchPlan plan_branches(GuidanceMode mode, bool guided, std::int64_t label,
                                       std::int64_t null_label, int rank, int ranks);

/// What the partner's branch gave for the same tokens. Collective over the whole context.
[[nodiscard]] at::Tensor exchange_with_partner(ExchangeContext& context, int partner, const at::Tensor& own);

}  // namespace dit
