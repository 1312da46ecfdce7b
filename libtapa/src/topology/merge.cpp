#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "topology/detect.hpp"
#include "topology/node_gpus.hpp"
#include "topology/reach_groups.hpp"

namespace tapa {

namespace {

/// group[rank] for any keys, numbered by first rank.
template <class Key>
std::vector<int> partition(const std::vector<Key>& keys) {
  std::map<Key, int> number;
  std::vector<int> group;
  for (const Key& key : keys) {
    group.push_back(number.try_emplace(key, static_cast<int>(number.size())).first->second);
  }
  return group;
}

Level make_level(const std::string& name, std::vector<int> group) {
  const int groups = number_by_first_rank(group);
  return {name, std::move(group), groups, {}, {}};
}

bool nested(const Level& fine, const Level& coarse) {
  std::vector<int> parent(static_cast<std::size_t>(fine.groups), -1);
  for (std::size_t r = 0; r < fine.group.size(); ++r) {
    int& p = parent[static_cast<std::size_t>(fine.group[r])];
    if (p == -1) p = coarse.group[r];
    if (p != coarse.group[r]) return false;
  }
  return true;
}

/// The level that `place` makes of the ranks of each node, unless a rank does not know its place.
template <class Place>
void add_place(const std::vector<Record>& records, const std::vector<int>& node, const std::string& name,
               const Place& place, std::vector<Level>& levels) {
  std::vector<std::pair<int, int>> keys;
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (place(records[r]) < 0) return;
    keys.emplace_back(node[r], place(records[r]));
  }
  Level level = make_level(name, partition(keys));
  if (level.groups < static_cast<int>(records.size())) levels.push_back(std::move(level));
}

/// Ranks whose GPUs reach each other, in groups as the device engine makes them; nothing where all of a node
/// do, or a rank does not know its GPU.
std::optional<Level> reach_level(const NodeGpus& gpus, const Level& node) {
  std::vector<std::vector<std::size_t>> nodes(static_cast<std::size_t>(node.groups));
  for (std::size_t r = 0; r < node.group.size(); ++r) {
    if (!gpus.knows(r)) return std::nullopt;
    nodes[static_cast<std::size_t>(node.group[r])].push_back(r);
  }
  std::vector<std::pair<int, int>> keys(node.group.size());
  for (const std::vector<std::size_t>& ranks : nodes) {
    const std::vector<int> group = groups_by_reach(ranks.size(), [&](std::size_t a, std::size_t b) {
      return gpus.path(ranks[a], ranks[b])->kind != GpuPath::Kind::host;
    });
    for (std::size_t i = 0; i < ranks.size(); ++i) keys[ranks[i]] = {node.group[ranks[i]], group[i]};
  }
  Level level = make_level("gpu", partition(keys));
  return level.groups > node.groups ? std::optional(std::move(level)) : std::nullopt;
}

/// Levels inside a node, fast to slow; what does not nest (a cache that spans two NUMA nodes) is left out,
/// but not who reaches whom: the memory of the host that joins the others is a level of its own.
std::vector<Level> inner_levels(const std::vector<Record>& records, const NodeGpus& gpus,
                                const std::vector<int>& node) {
  std::vector<Level> found;
  add_place(
      records, node, "tile", [](const Record& r) { return r.gpu.gpu; }, found);
  add_place(
      records, node, "nvlink",
      [&](const Record& r) { return gpus.island(static_cast<std::size_t>(&r - records.data())); }, found);
  std::vector<Level> kept = {make_level("node", node)};
  const std::optional<Level> reach = reach_level(gpus, kept[0]);
  if (reach && reach->groups < static_cast<int>(records.size())) found.push_back(*reach);
  add_place(
      records, node, "l3", [](const Record& r) { return r.l3; }, found);
  add_place(
      records, node, "numa", [](const Record& r) { return r.numa; }, found);
  add_place(
      records, node, "socket", [](const Record& r) { return r.socket; }, found);
  if (reach) {
    std::erase_if(found, [&](const Level& l) { return !nested(l, *reach) && !nested(*reach, l); });
    kept.push_back(make_level("host", node));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Level& a, const Level& b) { return a.groups > b.groups; });
  for (auto level = found.rbegin(); level != found.rend(); ++level) {
    if (nested(*level, kept.back())) kept.push_back(std::move(*level));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

/// Racks, when every rank knows its leaf switch.
void add_rack(const std::vector<Record>& records, std::vector<Level>& levels) {
  std::vector<std::string> racks;
  for (const Record& record : records) {
    if (record.rack.empty()) return;
    racks.push_back(record.rack);
  }
  Level rack = make_level("rack", partition(racks));
  if (nested(levels.back(), rack)) levels.push_back(std::move(rack));
}

/// For each node the record that lists its NICs: the one with the most, the first of them.
std::vector<const Record*> nic_lists(const std::vector<Record>& records, const Topology& topology) {
  std::vector<const Record*> list(static_cast<std::size_t>(topology.nodes()), nullptr);
  for (std::size_t r = 0; r < records.size(); ++r) {
    const Record*& best = list[static_cast<std::size_t>(topology.node_of(static_cast<int>(r)))];
    if (best == nullptr || records[r].nics.size() > best->nics.size()) best = &records[r];
  }
  return list;
}

/// Indices into `list` of the NICs that are near this rank; all of them when it does not know.
std::vector<int> near_nics(const Record& record, const std::vector<Nic>& list) {
  std::vector<int> near;
  for (int index : record.near) {
    const std::string& name = record.nics[static_cast<std::size_t>(index)].name;
    for (std::size_t n = 0; n < list.size(); ++n) {
      if (list[n].name == name) near.push_back(static_cast<int>(n));
    }
  }
  if (near.empty()) {
    for (std::size_t n = 0; n < list.size(); ++n) near.push_back(static_cast<int>(n));
  }
  std::sort(near.begin(), near.end());
  return near;
}

void add_nics(const std::vector<Record>& records, Topology& topology) {
  const std::vector<const Record*> lists = nic_lists(records, topology);
  std::vector<int> first;  // of each node, in topology.nics
  for (std::size_t node = 0; node < lists.size(); ++node) {
    first.push_back(static_cast<int>(topology.nics.size()));
    for (Nic nic : lists[node]->nics) {
      nic.node = static_cast<int>(node);
      topology.nics.push_back(std::move(nic));
    }
    if (topology.nics.size() > static_cast<std::size_t>(max_nics)) {
      throw std::invalid_argument("records list more than " + std::to_string(max_nics) + " NICs");
    }
  }
  if (topology.nics.empty()) return;
  std::map<std::pair<std::size_t, std::vector<int>>, std::size_t> turn;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const auto node = static_cast<std::size_t>(topology.node_of(static_cast<int>(r)));
    const std::vector<int> near = near_nics(records[r], lists[node]->nics);
    topology.rails.emplace_back();
    if (near.empty()) continue;
    const std::size_t next = turn[{node, near}]++;
    topology.rails.back().push_back(first[node] + near[next % near.size()]);
  }
}

/// What the slowest pair of GPUs of a level has, where both ranks know theirs.
void add_device_rates(const NodeGpus& gpus, Topology& topology) {
  for (std::size_t a = 0; a < static_cast<std::size_t>(topology.ranks); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const auto path = gpus.path(a, b);
      if (!path || !path->bandwidth) continue;
      const int level = topology.level_of(static_cast<int>(a), static_cast<int>(b));
      auto& known = topology.levels[static_cast<std::size_t>(level)].link.device_bandwidth;
      known = std::min(known.value_or(*path->bandwidth), *path->bandwidth);
    }
  }
}

void add_devices(const std::vector<Record>& records, Topology& topology) {
  const auto known = [](const Record& r) { return r.gpu.gpu >= 0 || r.bound_cores > 0; };
  if (std::none_of(records.begin(), records.end(), known)) return;
  for (const Record& record : records) {
    if (record.gpu.gpu >= 0) {
      topology.devices.push_back({record.gpu.name, record.gpu.pci, record.gpu.numa});
    } else {
      topology.devices.push_back(
          {record.bound_cores > 0 ? "cpus " + record.cpus : std::string("unbound"), {}, record.numa});
    }
  }
}

/// The fullest host decides: a collective is as slow as its slowest rank. Nodes that share a kernel share its
/// cores.
void add_cores(const std::vector<Record>& records, Topology& topology) {
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> cores_and_ranks;
  for (const Record& record : records) {
    if (record.cores == 0) return;
    auto& [cores, ranks] =
        cores_and_ranks[{record.kernel.empty() ? record.node : record.kernel, record.allowed}];
    cores = std::max(cores, record.cores);
    ++ranks;
  }
  for (const auto& [host, count] : cores_and_ranks) {
    const double share = static_cast<double>(count.first) / count.second;
    topology.cores_per_rank = std::min(topology.cores_per_rank.value_or(share), share);
  }
}

/// A message between nodes is at most as fast as the slowest NIC.
void add_nic_bandwidth(Topology& topology) {
  std::optional<double> slowest;
  for (const Nic& nic : topology.nics) {
    if (!nic.bandwidth) return;
    slowest = std::min(slowest.value_or(*nic.bandwidth), *nic.bandwidth);
  }
  for (std::size_t l = static_cast<std::size_t>(topology.nic_level); l < topology.levels.size(); ++l) {
    topology.levels[l].link.bandwidth = slowest;
  }
}

/// One report for each source: rank 0's words, and how many ranks had something to say when not all had.
void add_sources(const std::vector<Record>& records, Topology& topology) {
  for (const SourceReport& first : records[0].sources) {
    std::size_t used = 0;
    for (const Record& record : records) {
      used += static_cast<std::size_t>(
          std::count_if(record.sources.begin(), record.sources.end(),
                        [&](const SourceReport& s) { return s.name == first.name && s.used; }));
    }
    SourceReport report = first;
    if (used != 0 && used != records.size()) {
      report.used = true;
      report.detail += " (" + std::to_string(used) + " of " + std::to_string(records.size()) + " ranks)";
    }
    topology.sources.push_back(std::move(report));
  }
  std::map<std::string, std::pair<std::size_t, std::size_t>> notes;  // text -> first rank, ranks
  for (std::size_t r = 0; r < records.size(); ++r) {
    for (const std::string& note : records[r].notes) ++notes.try_emplace(note, r, 0).first->second.second;
  }
  for (const auto& [text, where] : notes) {
    const std::string who =
        where.second == records.size() ? "" : "rank " + std::to_string(where.first) + ": ";
    topology.sources.push_back({"environment", false, who + text});
  }
}

}  // namespace

Topology merge_records(const std::vector<Record>& records) {
  if (records.empty() || records.size() > static_cast<std::size_t>(max_ranks)) {
    throw std::invalid_argument(std::to_string(records.size()) + " records, expected 1 to " +
                                std::to_string(max_ranks));
  }
  Topology topology;
  topology.name = "detected";
  topology.ranks = static_cast<int>(records.size());
  std::vector<std::pair<std::string, std::string>> nodes;
  for (const Record& record : records) nodes.emplace_back(record.host, record.node);
  const std::vector<int> node = partition(nodes);
  const NodeGpus gpus(records, node);
  topology.levels = inner_levels(records, gpus, node);
  topology.nic_level = static_cast<int>(topology.levels.size());
  add_rack(records, topology.levels);
  topology.levels.push_back(make_level("world", std::vector<int>(records.size(), 0)));
  add_nics(records, topology);
  add_nic_bandwidth(topology);
  topology.merge_equal_levels();
  add_device_rates(gpus, topology);
  add_devices(records, topology);
  add_cores(records, topology);
  add_sources(records, topology);
  return topology;
}

Topology merge_records(const std::vector<std::string>& records) {
  std::vector<Record> parsed;
  for (std::size_t r = 0; r < records.size(); ++r) {
    parsed.push_back(parse_record(records[r], "record of rank " + std::to_string(r)));
  }
  return merge_records(parsed);
}

}  // namespace tapa
