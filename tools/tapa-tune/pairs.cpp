#include "pairs.hpp"

#include <algorithm>

namespace tapa {

std::vector<int> pair_up(const Topology& topology, int level, bool all) {
  std::vector<int> partners(static_cast<std::size_t>(topology.ranks), -1);
  for (int a = 0; a < topology.ranks; ++a) {
    for (int b = a + 1; b < topology.ranks && partners[static_cast<std::size_t>(a)] < 0; ++b) {
      if (partners[static_cast<std::size_t>(b)] < 0 && topology.level_of(a, b) == level) {
        partners[static_cast<std::size_t>(a)] = b;
        partners[static_cast<std::size_t>(b)] = a;
      }
    }
    if (!all && partners[static_cast<std::size_t>(a)] >= 0) {
      break;
    }
  }
  return partners;
}

double nic_share(const Topology& topology, const std::vector<double>& rates) {
  if (topology.nic_level >= static_cast<int>(topology.levels.size())) {
    return 0;
  }
  // A node is a group of the level below the one that crosses NICs; without one, each rank is.
  const int below = topology.nic_level - 1;
  std::vector<double> sums(rates.size(), 0.0);
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const auto node =
        below < 0 ? r : static_cast<std::size_t>(topology.levels[static_cast<std::size_t>(below)].group[r]);
    sums[node] += rates[r];
  }
  const auto nodes = below < 0 ? topology.ranks : topology.levels[static_cast<std::size_t>(below)].groups;
  const double nics_per_node = std::max(1.0, static_cast<double>(topology.nics.size()) / nodes);
  return *std::max_element(sums.begin(), sums.end()) / nics_per_node;
}

}  // namespace tapa
