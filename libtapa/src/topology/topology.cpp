#include "topology/topology.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace tapa {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto legal = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 32 && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), legal);
}

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

int Topology::node_of(int rank) const {
  if (nic_level == 0) return rank;
  return levels[static_cast<std::size_t>(nic_level) - 1].group[static_cast<std::size_t>(rank)];
}

int Topology::nodes() const {
  return nic_level == 0 ? ranks : levels[static_cast<std::size_t>(nic_level) - 1].groups;
}

int Topology::find_level(const std::string& level_name) const {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const std::vector<std::string>& also = levels[l].also;
    if (levels[l].name == level_name || std::find(also.begin(), also.end(), level_name) != also.end()) {
      return static_cast<int>(l);
    }
  }
  return -1;
}

bool Topology::through_host(int level) const {
  return level < nic_level && level <= find_level("host") && level > find_level("gpu");
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
    if (t.levels[other].name == l.name) return where + "the name is used twice";
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
  for (std::size_t n = 0; n < t.nics.size(); ++n) {
    if (t.nics[n].node < 0 || t.nics[n].node >= t.nodes()) {
      return "NIC " + std::to_string(n) + " is in node " + std::to_string(t.nics[n].node) + " of " +
             std::to_string(t.nodes());
    }
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
      const int there = t.nics[static_cast<std::size_t>(nic)].node;
      const int here = t.node_of(static_cast<int>(r));
      if (there != here) {
        return "rank " + std::to_string(r) + " of node " + std::to_string(here) + " uses NIC " +
               std::to_string(nic) + " of node " + std::to_string(there);
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

void Topology::merge_equal_levels() {
  std::vector<Level> kept;
  int kept_nic_level = -1;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Level level = std::move(levels[l]);
    const bool merge = !kept.empty() && kept.back().group == level.group;
    if (merge) {
      Level& fast = kept.back();
      level.link = fast.link;
      fast.also.push_back(std::move(fast.name));
      level.also.insert(level.also.begin(), fast.also.begin(), fast.also.end());
      kept.pop_back();
    }
    kept.push_back(std::move(level));
    if (kept_nic_level < 0 && static_cast<int>(l) >= nic_level && !merge) {
      kept_nic_level = static_cast<int>(kept.size()) - 1;
    }
  }
  levels = std::move(kept);
  nic_level = kept_nic_level < 0 ? static_cast<int>(levels.size()) : kept_nic_level;
}

namespace {

void check_members(const std::vector<int>& members, int ranks) {
  if (members.empty()) throw std::invalid_argument("subset has no member, expected at least 1");
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (int m : members) {
    if (m < 0 || m >= ranks) {
      throw std::invalid_argument("subset member " + std::to_string(m) + ", expected a rank from 0 to " +
                                  std::to_string(ranks - 1));
    }
    if (seen[static_cast<std::size_t>(m)]) {
      throw std::invalid_argument("subset member " + std::to_string(m) + " is listed twice");
    }
    seen[static_cast<std::size_t>(m)] = true;
  }
}

/// Gives `sub` the NICs of the nodes that its ranks are in, and renumbers rails and nodes.
void take_nics(const Topology& whole, const std::vector<int>& members, Topology& sub) {
  std::unordered_map<int, int> node_here;
  for (std::size_t i = 0; i < members.size(); ++i) {
    node_here.try_emplace(whole.node_of(members[i]), sub.node_of(static_cast<int>(i)));
  }
  std::vector<int> nic_here(whole.nics.size(), -1);
  for (std::size_t n = 0; n < whole.nics.size(); ++n) {
    const auto node = node_here.find(whole.nics[n].node);
    if (node == node_here.end()) continue;
    nic_here[n] = static_cast<int>(sub.nics.size());
    sub.nics.push_back(whole.nics[n]);
    sub.nics.back().node = node->second;
  }
  if (whole.rails.empty()) return;
  for (int m : members) {
    std::vector<int> rails = whole.rails[static_cast<std::size_t>(m)];
    for (int& nic : rails) nic = nic_here[static_cast<std::size_t>(nic)];
    sub.rails.push_back(std::move(rails));
  }
}

}  // namespace

Topology Topology::subset(const std::vector<int>& members) const {
  check_members(members, ranks);
  Topology sub;
  sub.name = name;
  sub.ranks = static_cast<int>(members.size());
  sub.cores_per_rank = cores_per_rank;
  sub.copy = copy;
  sub.sources = sources;
  sub.nic_level = nic_level;
  for (const Level& whole : levels) {
    Level level{whole.name, {}, 0, whole.link, whole.also};
    for (int m : members) level.group.push_back(whole.group[static_cast<std::size_t>(m)]);
    level.groups = number_by_first_rank(level.group);
    sub.levels.push_back(std::move(level));
  }
  sub.merge_equal_levels();
  for (int m : members) {
    if (!devices.empty()) sub.devices.push_back(devices[static_cast<std::size_t>(m)]);
  }
  take_nics(*this, members, sub);
  return sub;
}

int ranks_of(const std::vector<int>& slow_to_fast) {
  if (slow_to_fast.empty()) throw std::invalid_argument("topology has no factor, expected for example 2x2x3");
  int ranks = 1;
  for (int f : slow_to_fast) {
    if (f < 1) throw std::invalid_argument("topology factor " + std::to_string(f) + ", expected at least 1");
    if (ranks > max_ranks / f) {
      throw std::invalid_argument("topology has more than " + std::to_string(max_ranks) + " ranks");
    }
    ranks *= f;
  }
  return ranks;
}

Topology make_uniform_topology(const std::vector<int>& slow_to_fast) {
  const int ranks = ranks_of(slow_to_fast);
  constexpr std::size_t named = 5;  // topologies of up to so many levels have names for them
  constexpr const char* names[named][named] = {{"world"},
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
    level.name = depth <= named   ? names[depth - 1][l]
                 : l + 1 == depth ? "world"
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
