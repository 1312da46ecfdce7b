/// @file
/// A plan for people and scripts: text, JSON, SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/cost.hpp"
#include "plan/plan.hpp"

namespace tapa {

/// Messages and their bytes, all ranks together.
struct Traffic {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  void add(std::size_t more_bytes) {
    ++messages;
    bytes += more_bytes;
  }
};

/// What one phase of a plan moves.
struct PhaseTraffic {
  Traffic sent;
  std::vector<Traffic> levels;  ///< the same for each level of the topology
  Traffic busiest;  ///< most messages and most bytes that one rank sends (maybe not the same rank)
  Traffic copied;   ///< copies inside ranks
};

/// Traffic of each phase of the plan, counted at the senders.
[[nodiscard]] std::vector<PhaseTraffic> phase_traffic(const Plan& plan, const Topology& topology);

/// Most scratch that a rank needs.
[[nodiscard]] std::size_t most_scratch(const Plan& plan);

/// Phases, messages and bytes per level and NIC, predicted time.
[[nodiscard]] std::string explain_text(const Plan& plan, const Topology& topology, const Cost& cost);

/// The steps of one rank, a line each. Precondition: 0 <= rank < plan.ranks.
[[nodiscard]] std::string explain_rank(const Plan& plan, int rank);

/// The same as explain_text as JSON. All bytes are exact, seconds are predictions:
///
///     { "schema": "tapa-plan/1", "choice": "tapa:split=node", "topology": "2x3", "ranks": 6,
///       "seconds": 1.2e-5, "copy_seconds": 1e-6,      // whole exchange; slowest rank's copies
///       "messages": 18, "bytes": 4096,                // sent, all ranks
///       "scratch_bytes": 512,                         // largest of a rank
///       "levels": [ {"name": "node", "messages": 6, "bytes": 512, "seconds": 1e-6} ],    // fast to slow
///       "nics":   [ {"name": "nic0", "node": 0, "bytes": 2048} ],                        // that it sends
///       "phases": [ {"name": "fast node", "level": "node",        // level null when mixed
///                    "messages": 6, "bytes": 512, "busiest": {"messages": 1, "bytes": 128},
///                    "copies": 6, "copied_bytes": 64,
///                    "levels": [ {"name": "node", "messages": 6, "bytes": 512} ]} ],     // that it uses
///       "steps":  [ [ {"kind": "send", "phase": 0, "peer": 1, "channel": 0, "bytes": 64,
///                      "from": [{"buffer": "send", "block": 1, "offset": 0, "bytes": 64}], "after": [0]} ] ]
///                      }
///
/// "steps" (for each rank) only when asked for; "from" of sends and copies, "to" of receives and copies.
[[nodiscard]] std::string explain_json(const Plan& plan, const Topology& topology, const Cost& cost,
                                       bool steps);

/// Who sends to whom, one panel per phase: ranks on a circle, nodes as sectors, arrows as wide as their bytes
/// and in the colour of their level. The messages of rank 0 stand out; where a phase has too many they are
/// alone.
[[nodiscard]] std::string explain_svg(const Plan& plan, const Topology& topology, const Cost& cost);

}  // namespace tapa
