/// @file
/// What reports and explanations say of calls.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

#include "comm/plan_cache.hpp"

namespace tapa {

/// A function's name as this program calls it.
[[nodiscard]] std::string name_here(std::string_view function);
/// The name that the program gave a communicator, or its ranks; "" where nothing is to be reported. Local.
[[nodiscard]] std::string name_for_report(MPI_Comm comm);

/// Why a plan is taken that is tried to learn its time.
inline constexpr const char* kProbed = "being probed";
/// The line of TAPA_EXPLAIN for a plan, whose first run took so long.
[[nodiscard]] std::string explanation(const PlanEntry& entry, const char* function, int ranks,
                                      double seconds);

}  // namespace tapa
