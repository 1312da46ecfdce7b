/// @file
/// A machine as the ranks of one of its nodes see it: what predictions go by.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tapa::prediction {

/// The machine as the ranks of one node see it. Where nodes have unequal numbers of ranks, those of the
/// largest have most to send, those of the smallest most to relay.
struct View {
  std::vector<double> size;                 // of this node's group of each level, ranks
  std::vector<std::vector<double>> groups;  // [level][upto]: groups of a level in this node's group of upto
  std::vector<std::vector<double>> lanes;   // the same: messages to each of the other groups when relaying
  std::vector<std::vector<double>> ranks;   // the same: ranks of each of the other groups
  std::vector<int> members;                 // ranks on it
  double node = 1;                          // how many they are
  double nics = 1;                          // NICs that they load

  /// Ranks of this node's group of a level; of a level -1: one.
  [[nodiscard]] double size_at(int level) const;
  /// Groups of a level (-1: ranks) inside this node's one of `upto`.
  [[nodiscard]] double members_of(int level, int upto) const;
};

/// What the ranks of the node of `seen_from` see.
[[nodiscard]] View view_of(const Topology& topology, int seen_from);

}  // namespace tapa::prediction
