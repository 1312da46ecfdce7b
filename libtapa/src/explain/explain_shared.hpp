/// @file
/// The exchange of plan `memory` for people and scripts. It has no steps and sends no messages: ranks of one
/// node show their blocks in memory that all share, and each copies its own out of it.
#pragma once

#include <string>
#include <vector>

#include "explain/explain.hpp"
#include "plan/counts.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// Blocks that ranks copy out of others' memory; Traffic::messages counts blocks here.
struct SharedTraffic {
  Traffic read;                 ///< all ranks together
  std::vector<Traffic> levels;  ///< by the level between owner and reader
  Traffic busiest;              ///< most blocks and most bytes that one rank copies
};

[[nodiscard]] SharedTraffic shared_traffic(const Counts& counts, const Topology& topology);

/// What runs, blocks and bytes per level, predicted seconds.
[[nodiscard]] std::string explain_shared_text(const Counts& counts, const Topology& topology, double seconds);

/// What one rank shows and copies. Precondition: 0 <= rank < counts.ranks().
[[nodiscard]] std::string explain_shared_rank(const Counts& counts, int rank);

/// explain_json's object without messages, phases or steps ("messages" and "bytes" are 0, lists empty), and
///
///     "shared_memory": { "blocks": 12, "bytes": 12288, "busiest": {"blocks": 3, "bytes": 3072},
///                        "levels": [ {"name": "node", "blocks": 12, "bytes": 12288} ] }     // fast to slow
[[nodiscard]] std::string explain_shared_json(const Counts& counts, const Topology& topology, double seconds);

/// Whose blocks go to whom, as explain_svg draws messages, but dashed.
[[nodiscard]] std::string explain_shared_svg(const Counts& counts, const Topology& topology, double seconds);

}  // namespace tapa
