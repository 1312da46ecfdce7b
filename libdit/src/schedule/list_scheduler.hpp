/// List scheduling of a step graph on two lanes: one that computes, one that exchanges.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "schedule/order.hpp"

namespace dit {

inline constexpr std::size_t kStepRoles = static_cast<std::size_t>(StepRole::last) + 1;

/// How a list scheduler chooses among what could be done next. What has the smallest sum of weights comes
/// first; of equals that with the smallest id.
struct ListRule {
  std::array<double, kStepRoles> role{};
  double unit = 0;   ///< times the unit: > 0 lets the first unit go whenever it can, the others in its gaps
  double layer = 0;  ///< times the layer
  double group = 0;  ///< times the group
  double path = 0;   ///< times what is to be done after it, in layers: < 0 keeps units and groups abreast
  double ready = 0;  ///< times the moment at which it could have begun, in layers

  double patience = 0;  ///< so many layers' time the computing lane stands still for a better step

  double exchange_scale = 1;    ///< assume that exchanges take so many times their estimates
  int exchanges_under_way = 0;  ///< at most so many; 0: no limit
};

/// The graph must be sound.
[[nodiscard]] Order list_schedule(const StepGraph& graph, const ListRule& rule);

}  // namespace dit
