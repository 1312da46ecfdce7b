#include "topology/topology_file.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "topology/json_reader.hpp"

namespace tapa {

namespace {

constexpr int max_slots = 4096;

LinkCost read_link(const JsonReader& level) {
  return {level.positive_or_none("latency", "seconds"),
          level.positive_or_none("bandwidth", "bytes per second"),
          level.positive_or_none("message", "seconds"),
          level.positive_or_none("links", "links"),
          level.positive_or_none("taper", "(a ratio)"),
          level.positive_or_none("device_bandwidth", "bytes per second")};
}

/// "groups": a partition of `count` members ("ranks", "slots"). Returns group[member], numbered as in the
/// file.
std::vector<int> read_groups(const JsonReader& groups, int count, const std::string& members) {
  const auto limit = static_cast<std::size_t>(count);
  const std::size_t number = groups.size(1, limit, "groups");
  std::vector<int> group(limit, -1);
  for (std::size_t g = 0; g < number; ++g) {
    const JsonReader list = groups.at(g);
    const std::size_t size = list.size(1, limit, members);
    for (std::size_t i = 0; i < size; ++i) {
      const JsonReader entry = list.at(i);
      int& place = group[static_cast<std::size_t>(entry.integer(0, count - 1))];
      if (place != -1) entry.fail("every one of the " + std::to_string(count) + " " + members + " once");
      place = static_cast<int>(g);
    }
  }
  for (std::size_t m = 0; m < limit; ++m) {
    if (group[m] == -1)
      groups.fail_with("lists no group for " + std::to_string(m) + " of the " + std::to_string(count) + " " +
                       members);
  }
  return group;
}

Nic read_nic(const JsonReader& entry) {
  Nic nic;
  nic.name = entry.at("name").text(64);
  nic.bandwidth = entry.positive_or_none("bandwidth", "bytes per second");
  nic.message = entry.positive_or_none("message", "seconds");
  if (entry.has("pci")) nic.pci = entry.at("pci").text(32);
  if (entry.has("provider")) nic.provider = entry.at("provider").text(64);
  if (entry.has("numa")) nic.numa = entry.at("numa").integer(-1, 4096);
  return nic;
}

/// "rails": for each of `count` members the NICs it uses.
std::vector<std::vector<int>> read_rails(const JsonReader& file, std::size_t count,
                                         const std::string& members, std::size_t nics) {
  const JsonReader rails = file.at("rails");
  (void)rails.size(count, count, "lists of NICs, one for each of the " + members);
  std::vector<std::vector<int>> result(count);
  for (std::size_t m = 0; m < count; ++m) {
    const JsonReader list = rails.at(m);
    const std::size_t size = list.size(0, nics, "NICs");
    for (std::size_t i = 0; i < size; ++i) {
      const JsonReader entry = list.at(i);
      const int nic = entry.integer(0, static_cast<int>(nics) - 1);
      if (std::find(result[m].begin(), result[m].end(), nic) != result[m].end()) entry.fail("each NIC once");
      result[m].push_back(nic);
    }
  }
  return result;
}

std::vector<Device> read_devices(const JsonReader& file, std::size_t count, const std::string& members) {
  if (!file.has("devices")) return {};
  const JsonReader list = file.at("devices");
  (void)list.size(count, count, "devices, one for each of the " + members);
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d) {
    const JsonReader entry = list.at(d);
    entry.only_keys({"name", "pci", "numa"});
    Device device{entry.at("name").text(64), {}, -1};
    if (entry.has("pci")) device.pci = entry.at("pci").text(32);
    if (entry.has("numa")) device.numa = entry.at("numa").integer(-1, 4096);
    devices.push_back(std::move(device));
  }
  return devices;
}

/// Checks "schema" and returns "kind".
std::string read_kind(const JsonReader& file) {
  const JsonReader schema = file.at("schema");
  if (schema.text() != "tapa-topology/1") schema.fail("\"tapa-topology/1\"");
  const JsonReader kind = file.at("kind");
  std::string text = kind.text();
  if (text != "machine" && text != "ranks") kind.fail("\"machine\" or \"ranks\"");
  return text;
}

/// Every inner group lies in one group of the next level.
void check_inner_nesting(const JsonReader& levels, const Machine& machine) {
  for (std::size_t l = 0; l + 1 < machine.inner.size(); ++l) {
    std::vector<int> parent(static_cast<std::size_t>(machine.slots), -1);
    for (std::size_t s = 0; s < machine.inner[l].group.size(); ++s) {
      int& p = parent[static_cast<std::size_t>(machine.inner[l].group[s])];
      const int above = machine.inner[l + 1].group[s];
      if (p == -1) p = above;
      if (p != above) {
        levels.at(l)
            .at("groups")
            .at(static_cast<std::size_t>(machine.inner[l].group[s]))
            .fail_with("slot " + std::to_string(s) + " lies in another group of level " +
                       machine.inner[l + 1].name + " than the slots before it");
      }
    }
  }
}

void read_machine_levels(const JsonReader& levels, Machine& machine) {
  const std::size_t count = levels.size(2, max_levels, "levels");
  bool above_node = false;
  for (std::size_t l = 0; l < count; ++l) {
    const JsonReader level = levels.at(l);
    const bool last = l + 1 == count;
    level.only_keys(
        {"name", "groups", "nodes", "latency", "bandwidth", "message", "links", "taper", "device_bandwidth"});
    const std::string name = level.at("name").identifier();
    if (last != (name == "world")) level.at("name").fail("\"world\" as the last level and nowhere else");
    for (std::size_t other = 0; other < l; ++other) {
      if (levels.at(other).at("name").text() == name) level.at("name").fail("a name that no other level has");
    }
    if (above_node || last) {
      if (!above_node) level.fail_with("there is no level \"node\" before it");
      Machine::Outer outer{name, 0, read_link(level)};
      if (level.has("groups")) level.at("groups").fail("no groups of slots in a level above \"node\"");
      if (!last) outer.nodes = level.at("nodes").integer(2, max_ranks);
      if (last && level.has("nodes")) level.at("nodes").fail("no number of nodes in the world");
      if (!machine.outer.empty() && !last && outer.nodes % machine.outer.back().nodes != 0) {
        level.at("nodes").fail("a multiple of " + std::to_string(machine.outer.back().nodes) +
                               ", the level before");
      }
      machine.outer.push_back(std::move(outer));
      continue;
    }
    if (level.has("nodes")) level.at("nodes").fail("no number of nodes in a level up to \"node\"");
    above_node = name == "node";
    if (above_node && level.has("groups"))
      level.at("groups").fail("no groups in level \"node\": it is all slots");
    machine.inner.push_back({name,
                             above_node ? std::vector<int>(static_cast<std::size_t>(machine.slots), 0)
                                        : read_groups(level.at("groups"), machine.slots, "slots"),
                             read_link(level)});
  }
  check_inner_nesting(levels, machine);
}

Machine machine_of(const JsonReader& file, const std::string& origin) {
  file.only_keys(
      {"schema", "kind", "name", "description", "slots", "levels", "nics", "rails", "devices", "copy"});
  Machine machine;
  machine.origin = origin;
  machine.name = file.at("name").identifier();
  if (file.has("description")) machine.description = file.at("description").text(4096, true);
  machine.slots = file.at("slots").integer(1, max_slots);
  const auto slots = static_cast<std::size_t>(machine.slots);
  read_machine_levels(file.at("levels"), machine);
  machine.devices = read_devices(file, slots, "slots");
  machine.copy = file.positive_or_none("copy", "bytes per second");
  if (!file.has("nics")) {
    if (file.has("rails")) file.at("rails").fail("no rails where there are no nics");
    return machine;
  }
  const JsonReader nics = file.at("nics");
  const std::size_t number = nics.size(1, static_cast<std::size_t>(max_slots), "NICs");
  for (std::size_t n = 0; n < number; ++n) {
    nics.at(n).only_keys({"name", "bandwidth", "message", "pci", "provider", "numa"});
    machine.nics.push_back(read_nic(nics.at(n)));
  }
  machine.rails = read_rails(file, slots, "slots", number);
  return machine;
}

/// Reads "levels" of a file of kind "ranks". Groups keep the file's numbers: `file_groups[level]` counts NIC
/// nodes.
void read_rank_levels(const JsonReader& levels, Topology& topology) {
  const std::size_t count = levels.size(1, max_levels, "levels");
  for (std::size_t l = 0; l < count; ++l) {
    const JsonReader entry = levels.at(l);
    entry.only_keys(
        {"name", "groups", "also", "latency", "bandwidth", "message", "links", "taper", "device_bandwidth"});
    Level level;
    level.name = entry.at("name").identifier();
    level.link = read_link(entry);
    level.group = entry.has("groups") ? read_groups(entry.at("groups"), topology.ranks, "ranks")
                                      : std::vector<int>(static_cast<std::size_t>(topology.ranks), 0);
    if (entry.has("also")) {
      const JsonReader also = entry.at("also");
      const std::size_t names = also.size(0, max_levels, "names");
      for (std::size_t n = 0; n < names; ++n) level.also.push_back(also.at(n).identifier());
    }
    topology.levels.push_back(std::move(level));
  }
}

/// Index of the level that "nic_level" names; the number of levels without it.
int read_nic_level(const JsonReader& file, const Topology& topology) {
  if (!file.has("nic_level")) return static_cast<int>(topology.levels.size());
  const JsonReader entry = file.at("nic_level");
  const std::string name = entry.identifier();
  std::string known;
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    if (topology.levels[l].name == name) return static_cast<int>(l);
    known += (known.empty() ? "" : ", ") + topology.levels[l].name;
  }
  entry.fail("one of the levels " + known);
}

/// Renumbers every level by first rank; returns for the nodes of the file their new numbers.
std::vector<int> renumber(Topology& topology) {
  std::vector<int> node_in_file(static_cast<std::size_t>(topology.ranks));
  for (int r = 0; r < topology.ranks; ++r) node_in_file[static_cast<std::size_t>(r)] = topology.node_of(r);
  for (Level& level : topology.levels) level.groups = number_by_first_rank(level.group);
  std::vector<int> number(static_cast<std::size_t>(topology.nodes()));
  for (int r = 0; r < topology.ranks; ++r) {
    number[static_cast<std::size_t>(node_in_file[static_cast<std::size_t>(r)])] = topology.node_of(r);
  }
  return number;
}

Topology ranks_of(const JsonReader& file) {
  file.only_keys({"schema", "kind", "name", "description", "ranks", "levels", "nic_level", "nics", "rails",
                  "devices", "cores_per_rank", "copy"});
  Topology topology;
  topology.name = file.at("name").text(128);
  topology.ranks = file.at("ranks").integer(1, max_ranks);
  const auto ranks = static_cast<std::size_t>(topology.ranks);
  read_rank_levels(file.at("levels"), topology);
  topology.nic_level = read_nic_level(file, topology);
  const std::vector<int> node_number = renumber(topology);
  if (file.has("nics")) {
    const JsonReader nics = file.at("nics");
    const std::size_t number = nics.size(0, static_cast<std::size_t>(max_nics), "NICs");
    for (std::size_t n = 0; n < number; ++n) {
      const JsonReader entry = nics.at(n);
      entry.only_keys({"name", "node", "bandwidth", "message", "pci", "provider", "numa"});
      topology.nics.push_back(read_nic(entry));
      const int node = entry.at("node").integer(0, topology.nodes() - 1);
      topology.nics.back().node = node_number[static_cast<std::size_t>(node)];
    }
  }
  if (file.has("rails")) topology.rails = read_rails(file, ranks, "ranks", topology.nics.size());
  topology.devices = read_devices(file, ranks, "ranks");
  topology.cores_per_rank = file.positive_or_none("cores_per_rank", "cores");
  topology.copy = file.positive_or_none("copy", "bytes per second");
  if (const std::string bad = topology.check(); !bad.empty()) file.fail_with(bad);
  return topology;
}

}  // namespace

std::variant<Machine, Topology> read_topology_file(std::string_view json_text, const std::string& origin) {
  const nlohmann::json document = parse_json(json_text, origin, max_topology_bytes);
  const JsonReader file(document, origin);
  if (read_kind(file) == "machine") return machine_of(file, origin);
  Topology topology = ranks_of(file);
  topology.sources.push_back({"file", true, origin});
  return topology;
}

Machine read_machine(std::string_view json_text, const std::string& origin) {
  auto content = read_topology_file(json_text, origin);
  if (Machine* machine = std::get_if<Machine>(&content)) return std::move(*machine);
  throw std::invalid_argument(origin + ": $.kind: \"ranks\", expected \"machine\"");
}

Topology read_topology(std::string_view json_text, const std::string& origin) {
  auto content = read_topology_file(json_text, origin);
  if (const Machine* machine = std::get_if<Machine>(&content)) return instantiate(*machine, machine->slots);
  return std::get<Topology>(std::move(content));
}

}  // namespace tapa
