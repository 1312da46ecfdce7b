#include "plan/predict_view.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

namespace tapa::prediction {

namespace {

/// The groups of a level inside one of `upto`, and what they mean for a rank that relays for its own group.
void count_groups(const Topology& topology, View& v, std::size_t l, std::size_t upto, std::size_t own,
                  const std::vector<double>& ranks) {
  const std::vector<int>& inner = topology.levels[l].group;
  const std::vector<int>& outer = topology.levels[upto].group;
  std::vector<bool> seen(ranks.size());
  double others = 0, lanes = 0, all = 0;
  for (std::size_t rank = 0; rank < inner.size(); ++rank) {
    const auto g = static_cast<std::size_t>(inner[rank]);
    if (outer[rank] != outer[own] || seen[g]) continue;
    seen[g] = true;
    if (inner[rank] == inner[own]) continue;
    ++others;
    all += ranks[g];
    lanes += std::ceil(ranks[g] / v.size[l]);
  }
  v.groups[l][upto] = others + 1;
  if (others <= 0) return;
  v.lanes[l][upto] = lanes / others;
  v.ranks[l][upto] = all / others;
}

}  // namespace

double View::size_at(int level) const {
  return level < 0 ? 1.0 : size[static_cast<std::size_t>(level)];
}

double View::members_of(int level, int upto) const {
  if (level >= upto) return 1;
  if (level < 0) return size_at(upto);
  return groups[static_cast<std::size_t>(level)][static_cast<std::size_t>(upto)];
}

View view_of(const Topology& topology, int seen_from) {
  const std::size_t levels = topology.levels.size();
  View v;
  const auto own = static_cast<std::size_t>(seen_from);
  v.groups.assign(levels, std::vector<double>(levels, 1));
  v.lanes = v.ranks = v.groups;
  for (std::size_t l = 0; l < levels; ++l) {
    const Level& level = topology.levels[l];
    std::vector<double> ranks(static_cast<std::size_t>(level.groups));
    for (const int g : level.group) ++ranks[static_cast<std::size_t>(g)];
    v.size.push_back(ranks[static_cast<std::size_t>(level.group[own])]);
    for (std::size_t upto = l + 1; upto < levels; ++upto) count_groups(topology, v, l, upto, own, ranks);
  }
  const int node = topology.node_of(seen_from);
  std::map<int, double> served;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    if (topology.node_of(rank) != node) continue;
    v.members.push_back(rank);
    if (topology.rails.empty()) continue;
    const std::vector<int>& rails = topology.rails[static_cast<std::size_t>(rank)];
    for (const int nic : rails) served[nic] += 1.0 / static_cast<double>(rails.size());
  }
  v.node = static_cast<double>(v.members.size());
  double busiest = 0;
  for (const auto& [nic, ranks] : served) busiest = std::max(busiest, ranks);
  if (busiest > 0) v.nics = std::max(1.0, v.node / busiest);
  return v;
}

}  // namespace tapa::prediction
