#include "rails.hpp"

#include <algorithm>
#include <map>

namespace tapa::sim {

namespace {

/// Whether every NIC belongs to one set of rails only.
bool apart(const std::vector<std::vector<int>>& rails) {
  std::map<int, const std::vector<int>*> set_of;
  for (const std::vector<int>& set : rails) {
    for (const int nic : set) {
      if (*set_of.emplace(nic, &set).first->second != set) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::vector<int>> rails_in_use(const Topology& topology) {
  std::vector<std::vector<int>> rails(static_cast<std::size_t>(topology.ranks));
  if (topology.rails.empty()) return rails;
  rails = topology.rails;
  for (std::vector<int>& set : rails) std::sort(set.begin(), set.end());
  if (apart(rails)) return rails;
  for (std::size_t rank = 0; rank < rails.size(); ++rank) {
    if (!rails[rank].empty()) rails[rank] = {topology.rails[rank][rank % rails[rank].size()]};
  }
  return rails;
}

}  // namespace tapa::sim
