#include "plan/partition.hpp"

#include <algorithm>
#include <numeric>

namespace tapa {

namespace {

Partition from_members(std::vector<std::vector<int>> members, int ranks) {
  Partition p;
  p.group.resize(static_cast<std::size_t>(ranks));
  p.index.resize(static_cast<std::size_t>(ranks));
  p.members = std::move(members);
  for (std::size_t g = 0; g < p.members.size(); ++g) {
    for (std::size_t i = 0; i < p.members[g].size(); ++i) {
      const auto rank = static_cast<std::size_t>(p.members[g][i]);
      p.group[rank] = static_cast<int>(g);
      p.index[rank] = static_cast<int>(i);
    }
  }
  return p;
}

}  // namespace

Partition Partition::of_level(const Topology& topology, int level) {
  return from_members(topology.groups_of(level), topology.ranks);
}

Partition Partition::world(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return from_members({std::move(all)}, ranks);
}

int Partition::largest() const {
  std::size_t most = 0;
  for (const auto& m : members) most = std::max(most, m.size());
  return static_cast<int>(most);
}

}  // namespace tapa
