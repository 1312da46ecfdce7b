/// @file
/// A plan for people: text, JSON, SVG.
#pragma once

#include <string>

#include "plan/cost.hpp"
#include "plan/plan.hpp"

namespace tapa {

/// Phases, messages and bytes per level and NIC, predicted time.
[[nodiscard]] std::string explain_text(const Plan& plan, const Topology& topology, const Cost& cost);

/// The same as JSON (schema "tapa-plan/1"). With `steps` every step of every rank is listed too.
[[nodiscard]] std::string explain_json(const Plan& plan, const Topology& topology, const Cost& cost,
                                       bool steps);

/// Who talks to whom, one panel per phase.
[[nodiscard]] std::string explain_svg(const Plan& plan, const Topology& topology, const Cost& cost);

}  // namespace tapa
