/// @file
/// Topologies, choices and counts to try planners on.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "topology/topology.hpp"

namespace tapa::test {

/// Rank r is in group place(r) of the level; names go from fast to slow, "world" is added.
struct Cut {
  std::string name;
  std::function<int(int)> place;
};

inline Topology make_shape(const std::string& name, int ranks, const std::vector<Cut>& cuts) {
  Topology t;
  t.name = name;
  t.ranks = ranks;
  for (const Cut& cut : cuts) {
    Level level{cut.name, {}, 0, {}, {}};
    for (int r = 0; r < ranks; ++r) level.group.push_back(cut.place(r));
    level.groups = number_by_first_rank(level.group);
    t.levels.push_back(level);
  }
  t.levels.push_back({"world", std::vector<int>(static_cast<std::size_t>(ranks), 0), 1, {}, {}});
  t.nic_level = static_cast<int>(t.levels.size()) - 1;
  return t;
}

/// Groups of 1, 2, 3, 5, 1, 2, 3, 5, ... consecutive ranks.
inline int ragged_group(int rank) {
  constexpr int kSizes[] = {1, 2, 3, 5};
  int group = 0;
  for (int end = kSizes[0]; rank >= end; end += kSizes[++group % 4]) {
  }
  return group;
}

inline std::vector<int> divisors(int n) {
  std::vector<int> list;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(d);
  }
  return list;
}

/// One level of groups: every divisor, consecutive and round-robin, then ragged and scattered ones.
inline std::vector<Topology> one_level_shapes(int ranks) {
  std::vector<Topology> shapes;
  const auto add = [&](const std::string& name, const std::function<int(int)>& place) {
    shapes.push_back(make_shape(name, ranks, {{"node", place}}));
  };
  for (const int size : divisors(ranks)) {
    add("groups of " + std::to_string(size), [=](int r) { return r / size; });
    if (size > 1 && size < ranks) {
      add("groups of " + std::to_string(size) + " round-robin", [=](int r) { return r % (ranks / size); });
    }
  }
  add("groups of 1, 2, 3, 5", ragged_group);
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::vector<int> scattered;
  for (int r = 0; r < ranks; ++r) scattered.push_back(static_cast<int>(random() % 5));
  add("scattered over 5 groups", [=](int r) { return scattered[static_cast<std::size_t>(r)]; });
  return shapes;
}

/// Two levels of groups: sockets in nodes.
inline std::vector<Topology> two_level_shapes(int ranks) {
  std::vector<Topology> shapes;
  for (const int node : divisors(ranks)) {
    if (node == ranks || node < 4) continue;
    const int socket = divisors(node)[1];
    if (socket == node) continue;
    shapes.push_back(make_shape(
        "sockets of " + std::to_string(socket) + " in nodes of " + std::to_string(node), ranks,
        {{"socket", [=](int r) { return r / socket; }}, {"node", [=](int r) { return r / node; }}}));
  }
  shapes.push_back(make_shape("ragged sockets in scattered nodes", ranks,
                              {{"socket", [](int r) { return r % 3 * 1000 + ragged_group(r) / 2; }},
                               {"node", [](int r) { return r % 3; }}}));
  return shapes;
}

inline std::vector<std::string> flat_choices() {
  return {"linear", "linear:window=1", "linear:window=3", "pairwise",
          "bruck",  "bruck:radix=3",   "bruck:radix=8"};
}

inline std::vector<std::string> one_level_choices() {
  return {"tapa:split=node",
          "tapa:split=node,order=slow-first",
          "tapa:split=node,fast=pairwise,slow=bruck(2)",
          "tapa:split=node,fast=bruck(2),slow=pairwise",
          "tapa:split=node,pipeline=3",
          "tapa:split=node,order=slow-first,slow=bruck(3),pipeline=2",
          "tapa:split=node,fast=linear(2),slow=linear(1)",
          "leaders:split=node",
          "leaders:split=node,local=leader",
          "leaders:split=node,leaders=2,slow=bruck(2)",
          "leaders:split=node,leaders=all,pipeline=3",
          "leaders:split=node,leaders=2,local=leader,fast=pairwise,slow=pairwise"};
}

inline std::vector<std::string> two_level_choices() {
  return {"tapa:split=socket", "tapa:split=socket+node", "tapa:split=socket+node,order=slow-first",
          "tapa:split=socket+node,fast=pairwise,slow=bruck(2),pipeline=2", "leaders:split=socket,leaders=2"};
}

/// Bytes from 0 to 40, a third of them 0.
inline Counts random_counts(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> matrix(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
  for (std::size_t& bytes : matrix) bytes = random() % 3 == 0 ? 0 : random() % 41;
  return Counts::matrix(ranks, matrix);
}

}  // namespace tapa::test
