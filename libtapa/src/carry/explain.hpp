/// @file
/// What TAPA_EXPLAIN says of a plan.
#pragma once

#include <string>

#include "comm/plan_cache.hpp"

namespace tapa {

/// Why a plan is taken that is tried to learn its time.
inline constexpr const char* kProbed = "being probed";

/// The line for a plan, whose first run took so long.
[[nodiscard]] std::string explanation(const PlanEntry& entry, const char* function, int ranks,
                                      double seconds);

}  // namespace tapa
