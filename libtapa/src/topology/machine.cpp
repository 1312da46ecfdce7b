#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <unordered_map>

#include "files/paths.hpp"
#include "topology/input_file.hpp"
#include "topology/topology_file.hpp"

namespace tapa {

namespace fs = std::filesystem;

namespace {

/// Slot of each rank: ranks of a node are counted in order. Also numbers nodes by first rank.
std::vector<int> place(const Machine& machine, std::vector<int>& node_of_rank) {
  std::vector<int> used(static_cast<std::size_t>(number_by_first_rank(node_of_rank)), 0);
  std::vector<int> slot;
  for (std::size_t r = 0; r < node_of_rank.size(); ++r) {
    int& next = used[static_cast<std::size_t>(node_of_rank[r])];
    if (next == machine.slots) {
      throw std::invalid_argument("machine " + machine.name + ": rank " + std::to_string(r) + " is number " +
                                  std::to_string(next + 1) + " of its node, expected at most " +
                                  std::to_string(machine.slots) + " ranks on a node");
    }
    slot.push_back(next++);
  }
  return slot;
}

Level make_level(const std::string& name, const LinkCost& link, std::vector<int> group) {
  const int groups = number_by_first_rank(group);
  return {name, std::move(group), groups, link, {}};
}

/// Gives every node the machine's NICs, and every rank its slot's rails.
void add_nics(const Machine& machine, int nodes, const std::vector<int>& node, const std::vector<int>& slot,
              Topology& topology) {
  if (machine.nics.empty()) return;
  const int per_node = static_cast<int>(machine.nics.size());
  for (int n = 0; n < nodes; ++n) {
    for (Nic nic : machine.nics) {
      nic.node = n;
      topology.nics.push_back(std::move(nic));
    }
  }
  for (std::size_t r = 0; r < node.size(); ++r) {
    std::vector<int> rails = machine.rails[static_cast<std::size_t>(slot[r])];
    for (int& nic : rails) nic += node[r] * per_node;
    topology.rails.push_back(std::move(rails));
  }
}

std::string read_file(const std::string& path) {
  return read_input_file(path, max_topology_bytes, path, "a topology file");
}

/// The path that a name stands for.
std::string find_file(const std::string& name) {
  if (names_topology_file(name)) return name;
  std::string known;
  for (const MachineFile& file : shipped_machines()) {
    if (file.name == name) return file.path;
    known += (known.empty() ? "" : ", ") + file.name;
  }
  std::string searched;
  for (const std::string& folder : machine_folders()) searched += (searched.empty() ? "" : ", ") + folder;
  throw std::invalid_argument("machine \"" + name + "\" is unknown, expected a file.json or one of " +
                              (known.empty() ? "(none)" : known) +
                              " (folders searched: " + (searched.empty() ? "none exists" : searched) + ")");
}

void add_folder(const fs::path& folder, std::vector<std::string>& folders) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error || !fs::is_directory(real, error)) return;
  if (std::find(folders.begin(), folders.end(), real.string()) == folders.end())
    folders.push_back(real.string());
}

}  // namespace

Topology instantiate(const Machine& machine, const std::vector<int>& node_of_rank) {
  if (node_of_rank.empty() || node_of_rank.size() > static_cast<std::size_t>(max_ranks)) {
    throw std::invalid_argument("machine " + machine.name + ": " + std::to_string(node_of_rank.size()) +
                                " ranks, expected 1 to " + std::to_string(max_ranks));
  }
  for (std::size_t r = 0; r < node_of_rank.size(); ++r) {
    if (node_of_rank[r] < 0) {
      throw std::invalid_argument("machine " + machine.name + ": rank " + std::to_string(r) + " is on node " +
                                  std::to_string(node_of_rank[r]) + ", expected at least 0");
    }
  }
  std::vector<int> node = node_of_rank;
  const std::vector<int> slot = place(machine, node);
  const int nodes = *std::max_element(node.begin(), node.end()) + 1;
  if (static_cast<std::size_t>(nodes) * machine.nics.size() > static_cast<std::size_t>(max_nics) ||
      nodes > max_ranks / machine.slots) {
    throw std::invalid_argument("machine " + machine.name + ": " + std::to_string(nodes) +
                                " nodes are too many");
  }
  Topology topology;
  topology.name = machine.name;
  topology.ranks = static_cast<int>(node.size());
  for (const Machine::Inner& inner : machine.inner) {
    std::vector<int> group;
    for (std::size_t r = 0; r < node.size(); ++r) {
      group.push_back(node[r] * machine.slots + inner.group[static_cast<std::size_t>(slot[r])]);
    }
    topology.levels.push_back(make_level(inner.name, inner.link, std::move(group)));
  }
  topology.nic_level = static_cast<int>(topology.levels.size());
  for (const Machine::Outer& outer : machine.outer) {
    std::vector<int> group;
    for (int n : node_of_rank) group.push_back(outer.nodes == 0 ? 0 : n / outer.nodes);
    topology.levels.push_back(make_level(outer.name, outer.link, std::move(group)));
  }
  if (!machine.devices.empty()) {
    for (int s : slot) topology.devices.push_back(machine.devices[static_cast<std::size_t>(s)]);
  }
  topology.merge_equal_levels();
  add_nics(machine, nodes, node, slot, topology);
  topology.copy = machine.copy;
  topology.sources.push_back({"file", true, machine.origin + " (machine " + machine.name + ")"});
  return topology;
}

Topology instantiate(const Machine& machine, int ranks, Placement placement, int per_node) {
  const std::string who = "machine " + machine.name + ": ";
  if (ranks < 1 || ranks > max_ranks) {
    throw std::invalid_argument(who + std::to_string(ranks) + " ranks, expected 1 to " +
                                std::to_string(max_ranks));
  }
  if (per_node < 0 || per_node > machine.slots) {
    throw std::invalid_argument(who + std::to_string(per_node) + " ranks per node, expected 1 to " +
                                std::to_string(machine.slots));
  }
  const int full = per_node == 0 ? machine.slots : per_node;
  const int nodes = (ranks - 1) / full + 1;
  std::vector<int> node;
  for (int r = 0; r < ranks; ++r) node.push_back(placement == Placement::block ? r / full : r % nodes);
  return instantiate(machine, node);
}

Machine load_machine(const std::string& path_or_machine_name) {
  const std::string path = find_file(path_or_machine_name);
  return read_machine(read_file(path), path);
}

Topology load_topology(const std::string& path_or_machine_name, int ranks, Placement placement,
                       int per_node) {
  const std::string path = find_file(path_or_machine_name);
  auto content = read_topology_file(read_file(path), path);
  if (const Machine* machine = std::get_if<Machine>(&content)) {
    const int full = per_node == 0 ? machine->slots : per_node;
    return instantiate(*machine, ranks == 0 ? full : ranks, placement, per_node);
  }
  auto& topology = std::get<Topology>(content);
  if (ranks != 0 && topology.ranks != ranks) {
    throw std::invalid_argument(path + ": describes " + std::to_string(topology.ranks) + " ranks, expected " +
                                std::to_string(ranks));
  }
  return std::move(topology);
}

bool names_topology_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

std::vector<std::string> machine_folders() {
  std::vector<std::string> folders;
  for (fs::path folder : {files::library_folder(), files::program_folder()}) {
    // bin/, bin/tests/, lib/ and lib/x86_64-linux-gnu/ all lie at most two below the prefix
    for (int up = 0; up < 2 && !folder.empty(); ++up) {
      folder = folder.parent_path();
      add_folder(folder / "share" / "tapa" / "machines", folders);
    }
  }
  return folders;
}

std::vector<MachineFile> shipped_machines() {
  std::vector<MachineFile> machines;
  for (const std::string& folder : machine_folders()) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() != ".json") continue;
      const std::string name = entry.path().stem().string();
      const auto same = [&](const MachineFile& m) { return m.name == name; };
      if (std::none_of(machines.begin(), machines.end(), same))
        machines.push_back({name, entry.path().string()});
    }
  }
  std::sort(machines.begin(), machines.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return machines;
}

}  // namespace tapa
