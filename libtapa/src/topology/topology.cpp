#include "topology/topology.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace tapa {

int number_by_first_rank(std::vector<int>& group) {
  std::unordered_map<int, int> number;
  for (int& g : group) g = number.try_emplace(g, static_cast<int>(number.size())).first->second;
  return static_cast<int>(number.size());
}

int Topology::level_of(int a, int b) const {
  const auto ra = static_cast<std::size_t>(a);
  const auto rb = static_cast<std::size_t>(b);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (levels[l].group[ra] == levels[l].group[rb]) return static_cast<int>(l);
  }
  return static_cast<int>(levels.size()) - 1;
}

int Topology::find_level(const std::string& level_name) const {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (levels[l].name == level_name) return static_cast<int>(l);
  }
  return -1;
}

std::vector<std::vector<int>> Topology::groups_of(int level) const {
  const Level& l = levels.at(static_cast<std::size_t>(level));
  std::vector<std::vector<int>> members(static_cast<std::size_t>(l.groups));
  for (int r = 0; r < ranks; ++r)
    members[static_cast<std::size_t>(l.group[static_cast<std::size_t>(r)])].push_back(r);
  return members;
}

namespace {

std::string check_level(const Topology& t, std::size_t index) {
  const Level& l = t.levels[index];
  const std::string where = "level " + std::to_string(index) + " (" + l.name + "): ";
  if (l.name.empty()) return where + "has no name";
  if (l.group.size() != static_cast<std::size_t>(t.ranks)) {
    return where + "places " + std::to_string(l.group.size()) + " ranks, expected " + std::to_string(t.ranks);
  }
  std::vector<int> renumbered = l.group;
  if (number_by_first_rank(renumbered) != l.groups || renumbered != l.group) {
    return where + "groups are not numbered 0.." + std::to_string(l.groups - 1) + " by first rank";
  }
  for (std::size_t other = 0; other < index; ++other) {
    if (t.levels[other].name == l.name) return where + "name is used twice";
  }
  return {};
}

std::string check_nesting(const Topology& t, std::size_t index) {
  const Level& fast = t.levels[index];
  const Level& slow = t.levels[index + 1];
  std::vector<int> parent(static_cast<std::size_t>(fast.groups), -1);
  for (std::size_t r = 0; r < fast.group.size(); ++r) {
    int& p = parent[static_cast<std::size_t>(fast.group[r])];
    if (p == -1) p = slow.group[r];
    if (p != slow.group[r]) {
      return "group " + std::to_string(fast.group[r]) + " of level " + fast.name + " lies in groups " +
             std::to_string(p) + " and " + std::to_string(slow.group[r]) + " of level " + slow.name;
    }
  }
  return {};
}

std::string check_nics(const Topology& t) {
  if (t.nic_level < 0 || t.nic_level > static_cast<int>(t.levels.size())) {
    return "nic_level " + std::to_string(t.nic_level) + " is not a level";
  }
  if (!t.rails.empty() && t.rails.size() != static_cast<std::size_t>(t.ranks)) {
    return "rails list " + std::to_string(t.rails.size()) + " ranks, expected " + std::to_string(t.ranks);
  }
  for (std::size_t r = 0; r < t.rails.size(); ++r) {
    for (int nic : t.rails[r]) {
      if (nic < 0 || nic >= static_cast<int>(t.nics.size())) {
        return "rank " + std::to_string(r) + " uses NIC " + std::to_string(nic) + " of " +
               std::to_string(t.nics.size());
      }
    }
  }
  if (!t.devices.empty() && t.devices.size() != static_cast<std::size_t>(t.ranks)) {
    return "devices list " + std::to_string(t.devices.size()) + " ranks, expected " + std::to_string(t.ranks);
  }
  return {};
}

}  // namespace

std::string Topology::check() const {
  if (ranks < 1) return "ranks is " + std::to_string(ranks) + ", expected at least 1";
  if (levels.empty()) return "there are no levels";
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (std::string bad = check_level(*this, l); !bad.empty()) return bad;
  }
  for (std::size_t l = 0; l + 1 < levels.size(); ++l) {
    if (std::string bad = check_nesting(*this, l); !bad.empty()) return bad;
  }
  if (levels.back().groups != 1) {
    return "the slowest level (" + levels.back().name + ") has " + std::to_string(levels.back().groups) +
           " groups, expected 1";
  }
  return check_nics(*this);
}

Topology Topology::subset(const std::vector<int>& members) const {
  Topology sub;
  sub.name = name;
  sub.ranks = static_cast<int>(members.size());
  sub.sources = sources;
  sub.cores_per_rank = cores_per_rank;
  int kept_nic_level = -1;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Level level{levels[l].name, {}, 0, levels[l].link};
    for (int m : members) level.group.push_back(levels[l].group.at(static_cast<std::size_t>(m)));
    level.groups = number_by_first_rank(level.group);
    const bool same_as_faster = !sub.levels.empty() && sub.levels.back().group == level.group;
    if (same_as_faster) sub.levels.pop_back();
    sub.levels.push_back(std::move(level));
    if (kept_nic_level < 0 && static_cast<int>(l) >= nic_level && !same_as_faster) {
      kept_nic_level = static_cast<int>(sub.levels.size()) - 1;
    }
  }
  sub.nic_level = kept_nic_level < 0 ? static_cast<int>(sub.levels.size()) : kept_nic_level;
  for (int m : members) {
    if (!rails.empty()) sub.rails.push_back(rails[static_cast<std::size_t>(m)]);
    if (!devices.empty()) sub.devices.push_back(devices[static_cast<std::size_t>(m)]);
  }
  sub.nics = nics;
  return sub;
}

Topology make_uniform_topology(const std::vector<int>& slow_to_fast) {
  if (slow_to_fast.empty()) throw std::invalid_argument("topology has no factor, expected for example 2x2x3");
  int ranks = 1;
  for (int f : slow_to_fast) {
    if (f < 1) throw std::invalid_argument("topology factor " + std::to_string(f) + ", expected at least 1");
    if (ranks > (1 << 24) / f) throw std::invalid_argument("topology has more than 16777216 ranks");
    ranks *= f;
  }
  static const std::vector<std::vector<std::string>> names = {{"world"},
                                                              {"node", "world"},
                                                              {"socket", "node", "world"},
                                                              {"tile", "socket", "node", "world"},
                                                              {"tile", "socket", "node", "rack", "world"}};
  const std::size_t depth = slow_to_fast.size();
  Topology t;
  t.ranks = ranks;
  int block = 1;  // ranks in a group of the level being made
  for (std::size_t l = 0; l < depth; ++l) {
    block *= slow_to_fast[depth - 1 - l];
    Level level;
    level.name = depth <= names.size() ? names[depth - 1][l]
                 : l + 1 == depth      ? "world"
                                       : "level" + std::to_string(l);
    for (int r = 0; r < ranks; ++r) level.group.push_back(r / block);
    level.groups = ranks / block;
    t.levels.push_back(std::move(level));
  }
  for (int f : slow_to_fast) t.name += (t.name.empty() ? "" : "x") + std::to_string(f);
  const int node = t.find_level("node");
  t.nic_level = node < 0 ? (depth == 1 ? 1 : static_cast<int>(depth) - 1) : node + 1;
  if (t.nic_level < static_cast<int>(depth)) {
    const Level& nodes = t.levels[static_cast<std::size_t>(t.nic_level - 1)];
    for (int n = 0; n < nodes.groups; ++n) t.nics.push_back(Nic{"nic0", n, {}, {}, {}, {}, -1});
    for (int g : nodes.group) t.rails.push_back({g});
  }
  return t;
}

}  // namespace tapa
