/// The levels of a group of ranks.
#pragma once

#include <string>
#include <vector>

namespace dit {

/// From fast to slow.
struct Levels {
  std::vector<std::string> names;
  std::vector<int> of;  ///< of each peer
  int slow = 0;         ///< first one that leaves a node; names.size() when none does
};

/// "levels node, world, slow from world", for describe.
[[nodiscard]] std::string words_of(const Levels& levels);

/// "node" and "world", as `rank` sees them; `node_of` each rank is its node, whatever its number.
[[nodiscard]] Levels levels_of_nodes(const std::vector<int>& node_of, int rank);

/// Where ranks of a node do not all reach each other's memory: "gpu", of those that do, "host", of a node,
/// whose memory joins them, and "world", where there are several nodes. Else as levels_of_nodes.
[[nodiscard]] Levels levels_of_reach(const std::vector<int>& node_of, const std::vector<int>& group_of,
                                     int rank);

}  // namespace dit
