/// @file
/// One partition of the ranks into groups, with each rank's place in it. The rank map is data: groups may
/// differ in size and their ranks need not be contiguous.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tapa {

struct Partition {
  std::vector<int> group;                 ///< group[rank]
  std::vector<int> index;                 ///< index[rank]: position among the group's members
  std::vector<std::vector<int>> members;  ///< members[group]: ranks, ascending

  /// The partition of a topology's level.
  static Partition of_level(const Topology& topology, int level);

  /// All ranks in one group.
  static Partition world(int ranks);

  [[nodiscard]] int groups() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int group_of(int rank) const { return group[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int index_of(int rank) const { return index[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& members_of(int g) const {
    return members[static_cast<std::size_t>(g)];
  }
  [[nodiscard]] int size_of(int g) const { return static_cast<int>(members_of(g).size()); }
  /// The member at position `i` modulo the group's size.
  [[nodiscard]] int member(int g, int i) const {
    return members_of(g)[static_cast<std::size_t>(i % size_of(g))];
  }
  [[nodiscard]] int largest() const;
};

}  // namespace tapa
