#include "plan/predict_sends.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace tapa::prediction {

namespace {

/// What the busiest rank sends and receives; `senders` times that is what the node's ranks send together,
/// and `sharing` times that goes through the busiest NIC.
void add(Load& load, int level, double messages, double received, double bytes, double senders,
         double sharing) {
  const auto i = static_cast<std::size_t>(level);
  load.messages[i] += messages;
  load.received[i] += received;
  load.bytes[i] += bytes;
  load.node[i] += messages * senders;
  load.node_bytes[i] += bytes * senders;
  load.nic[i] += messages * sharing;
  load.nic_bytes[i] += bytes * sharing;
}

}  // namespace

bool consecutive(const Topology& topology, int level) {
  const std::vector<int>& group = topology.levels[static_cast<std::size_t>(level)].group;
  return std::is_sorted(group.begin(), group.end());
}

double own_node_first(const Topology& topology, const Load& load) {
  const double all = std::accumulate(load.messages.begin(), load.messages.end(), 0.0);
  const bool in_order = topology.nic_level > 0 && consecutive(topology, topology.nic_level - 1);
  return in_order && all > 0 ? 1 - through_nics(topology, load.messages) / all : 0;
}

void look_at_members(const Topology& topology, const View& view, Set& set) {
  const std::vector<int>& inner = topology.levels[static_cast<std::size_t>(set.below)].group;
  const std::vector<int>& outer = topology.levels[static_cast<std::size_t>(set.upto)].group;
  const auto own = static_cast<std::size_t>(view.members.front());
  std::vector<int> place(
      static_cast<std::size_t>(topology.levels[static_cast<std::size_t>(set.below)].groups), -1);
  std::vector<double> ranks;
  for (std::size_t rank = 0; rank < inner.size(); ++rank) {
    if (outer[rank] != outer[own]) continue;
    int& at = place[static_cast<std::size_t>(inner[rank])];
    if (at < 0) {
      at = static_cast<int>(ranks.size());
      ranks.push_back(0);
    }
    ++ranks[static_cast<std::size_t>(at)];
  }
  const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
  if (*least == *most) return;
  set.place = static_cast<std::size_t>(place[static_cast<std::size_t>(inner[own])]);
  set.ranks = std::move(ranks);
}

double passed_on(Set& set, long long radix, long long power, long long digit) {
  const auto places = static_cast<long long>(std::lround(set.places));
  const long long cycle = power * radix;
  if (set.ranks.empty()) {
    const long long rest = std::clamp(places % cycle - digit * power, 0LL, power);
    return static_cast<double>(places / cycle * power + rest) * set.block;
  }
  const double own = set.ranks[set.place];
  const auto ranks_at = [&](long long away) {
    return set.ranks[static_cast<std::size_t>((static_cast<long long>(set.place) + away + places) % places)];
  };
  double blocks = 0, of_all = 0;
  double most_to = 0, most_from = 0;  // ranks of the groups that what goes out is for, and what comes in
  for (long long distance = digit * power; distance < places; ++distance) {
    if (distance / power % radix != digit) continue;
    const long long passed = distance % power;
    const double to = ranks_at(distance - passed);
    blocks += ranks_at(-passed) * std::ceil(to / own);
    of_all += ranks_at(-passed) * to;
    most_to = std::max(most_to, to);
    most_from = std::max(most_from, ranks_at(distance - passed - digit * power));
  }
  set.even = of_all / (blocks * own);
  set.out = std::ceil(std::min(ranks_at(digit * power), most_to) / own);
  set.in = std::ceil(std::min(ranks_at(-digit * power), most_from) / own);
  return blocks * set.block / own;
}

void Sends::spread(Load& load, const Set& set, double messages, double bytes) const {
  const double active = std::min(set.active, view_.node);
  const double senders = active * set.even;
  // Those that have most to send may well share a NIC.
  const double sharing = view_.nics > 1 ? active / view_.nics : senders;
  const double all = view_.members_of(set.below, set.upto) - 1;
  if (all <= 0) return;
  for (int l = set.below + 1; l <= set.upto; ++l) {
    const double share = (view_.members_of(set.below, l) - view_.members_of(set.below, l - 1)) / all;
    add(load, l, messages * share * set.out, messages * share * set.in, bytes * share, senders, sharing);
  }
}

void Sends::send_on(Load& load, const Set& set, double distance, double bytes) const {
  const double ranks = std::min(distance, set.places - distance) * view_.size_at(set.below);
  double inside = 0;  // share of the members whose peer is in their group of the level before
  for (int l = set.below + 1; l <= set.upto; ++l) {
    const double leave = l == set.upto ? 0 : std::min(1.0, ranks / view_.size_at(l));
    const double share = std::max(0.0, 1 - leave - inside);
    add_share(load, l, share, set, bytes);
    inside += share;
  }
}

/// Messages of a share of the ranks. They are neighbours, so those of a NIC are all among them, or none.
void Sends::add_share(Load& load, int level, double share, const Set& set, double bytes) const {
  if (share <= 0) return;
  const double active = std::min(set.active, view_.node);
  const double sharing = view_.nics > 1 ? std::min(active / view_.nics / share, active) : active * set.even;
  add(load, level, share * set.out, share * set.in, share * bytes, active * set.even, sharing);
}

void Sends::send_on_of_all(Load& load, const Set& set, int distance, double bytes) const {
  constexpr int most_looked_at = 512;
  const int looked_at = std::min(topology_.ranks, most_looked_at);
  const auto level_from = [&](int rank) {
    return topology_.level_of(rank, (rank + distance) % topology_.ranks);
  };
  std::vector<double> across(topology_.levels.size());
  for (int i = 0; i < looked_at; ++i) {
    const auto rank = static_cast<int>(static_cast<long long>(i) * topology_.ranks / looked_at);
    across[static_cast<std::size_t>(level_from(rank))] += 1.0 / looked_at;
  }
  // Of unequal nodes, by what leaves this one.
  const auto leaving =
      static_cast<double>(std::count_if(view_.members.begin(), view_.members.end(),
                                        [&](int rank) { return level_from(rank) >= topology_.nic_level; }));
  const double leave = leaving / view_.node;
  const double average = through_nics(topology_, across);
  for (std::size_t l = 0; l < topology_.levels.size(); ++l) {
    const bool by_nic = static_cast<int>(l) >= topology_.nic_level;
    const double of_all = by_nic ? average : 1 - average;
    const double here = by_nic ? leave : 1 - leave;
    if (of_all > 0) add_share(load, static_cast<int>(l), across[l] / of_all * here, set, bytes);
  }
}

}  // namespace tapa::prediction
