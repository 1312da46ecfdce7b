#include <algorithm>
#include <cstdio>
#include <sstream>

#include "info.hpp"
#include "plan/choose.hpp"
#include "plan/planner.hpp"
#include "topology/topology_file.hpp"

namespace tapa::info {

namespace {

/// `text` and spaces up to `width`, and at least one.
std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string plural(std::size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string sizes_of(const std::vector<std::vector<int>>& groups) {
  std::size_t least = groups[0].size();
  std::size_t most = least;
  for (const auto& group : groups) {
    least = std::min(least, group.size());
    most = std::max(most, group.size());
  }
  return least == most ? std::to_string(least) : std::to_string(least) + "-" + std::to_string(most);
}

void write_levels(const Topology& topology, std::ostream& out) {
  std::vector<std::string> names;
  std::size_t longest = 14;
  for (const Level& level : topology.levels) {
    names.push_back(level.name);
    for (const std::string& also : level.also) names.back() += " = " + also;
    longest = std::max(longest, names.back().size() + 2);
  }
  const bool on_gpus = std::any_of(topology.levels.begin(), topology.levels.end(),
                                   [](const Level& l) { return l.link.device_bandwidth.has_value(); });
  out << "levels, fast to slow\n";
  out << "  " << padded("name", longest) << padded("groups", 8) << padded("ranks", 8) << padded("latency", 10)
      << padded("message", 10) << (on_gpus ? padded("bandwidth", 26) + "between GPUs" : "bandwidth") << "\n";
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    const Level& level = topology.levels[l];
    out << "  " << padded(names[l], longest) << padded(std::to_string(level.groups), 8)
        << padded(sizes_of(topology.groups_of(static_cast<int>(l))), 8)
        << padded(time_text(level.link.latency), 10) << padded(time_text(level.link.message), 10)
        << (on_gpus ? padded(rate_text(level.link.bandwidth), 26) + rate_text(level.link.device_bandwidth)
                    : rate_text(level.link.bandwidth))
        << (topology.through_host(static_cast<int>(l)) ? "  (through memory of the host)" : "")
        << (static_cast<int>(l) == topology.nic_level ? "  (crosses NICs from here on)" : "") << "\n";
  }
  if (topology.nic_level == static_cast<int>(topology.levels.size())) out << "  no message crosses a NIC\n";
}

void write_rank(const Topology& topology, int rank, const std::string& indent, std::ostream& out) {
  const auto r = static_cast<std::size_t>(rank);
  std::string line = indent + padded("rank " + std::to_string(rank), 12);
  if (!topology.devices.empty()) line += padded(topology.devices[r].name, 18);
  if (!topology.rails.empty()) {
    std::string rails;
    for (int nic : topology.rails[r]) {
      rails += (rails.empty() ? "-> " : ", ") + topology.nics[static_cast<std::size_t>(nic)].name;
    }
    line += rails;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << "\n";
}

/// The ranks of one group, by the groups of the next faster level.
void write_group(const Topology& topology, int level, const std::vector<int>& ranks,
                 const std::string& indent, std::ostream& out) {
  if (level < 0) {
    for (int r : ranks) write_rank(topology, r, indent, out);
    return;
  }
  const Level& here = topology.levels[static_cast<std::size_t>(level)];
  std::vector<std::pair<int, std::vector<int>>> groups;
  for (int r : ranks) {
    const int g = here.group[static_cast<std::size_t>(r)];
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.first == g; });
    if (same == groups.end())
      groups.push_back({g, {r}});
    else
      same->second.push_back(r);
  }
  for (const auto& [number, members] : groups) {
    out << indent << here.name << " " << number << "\n";
    write_group(topology, level - 1, members, indent + "  ", out);
  }
}

void write_nics(const Topology& topology, int node, std::ostream& out) {
  for (const Nic& nic : topology.nics) {
    if (nic.node != node) continue;
    out << "    " << padded("NIC " + nic.name, 14) << rate_text(nic.bandwidth);
    if (!nic.provider.empty()) out << "  " << nic.provider;
    if (!nic.pci.empty()) out << "  PCI " << nic.pci;
    if (nic.numa >= 0) out << "  NUMA " << nic.numa;
    out << "\n";
  }
}

void write_gpus(const Record& record, std::ostream& out) {
  for (std::size_t g = 0; g < record.gpus.size(); ++g) {
    const GpuLinks& gpu = record.gpus[g];
    out << "    " << padded("GPU " + std::to_string(g), 14) << gpu.name << "  PCI " << gpu.pci << "  "
        << text_of(gpu) << "\n";
  }
}

void write_node(const Topology& topology, const std::vector<Record>& records, int node,
                const std::vector<int>& ranks, std::ostream& out) {
  out << "  " << node_name(topology, records, node) << ": " << plural(ranks.size(), "rank") << "\n";
  if (!records.empty()) {
    const HostFacts& facts = records[static_cast<std::size_t>(ranks[0])].facts;
    const int cores = records[static_cast<std::size_t>(ranks[0])].cores;
    out << "    " << (facts.cpu.empty() ? "CPU" : facts.cpu) << ", "
        << plural(static_cast<std::size_t>(cores), "core");
    if (facts.sockets > 0) out << ", " << plural(static_cast<std::size_t>(facts.sockets), "socket");
    if (facts.numa_nodes > 0) out << ", " << plural(static_cast<std::size_t>(facts.numa_nodes), "NUMA node");
    out << ", " << plural(static_cast<std::size_t>(facts.gpus), "GPU") << "\n";
  }
  if (!records.empty()) write_gpus(records[static_cast<std::size_t>(ranks[0])], out);
  write_nics(topology, node, out);
  // The level below the NICs is the node itself; on one node the world is.
  const int inside = std::min(topology.nic_level, static_cast<int>(topology.levels.size())) - 2;
  write_group(topology, inside, ranks, "    ", out);
}

void write_devices(const Topology& topology, const std::optional<DeviceBuffers>& devices, std::ostream& out) {
  if (!devices) return;
  const auto line = [&](const std::string& who, const DeviceDecision& d) {
    out << "  " << padded(who, 16) << padded(std::string(to_string(d.way)), 10) << d.why << "\n";
  };
  out << "\nbuffers in GPU memory, where a rank uses a GPU\n";
  line("all ranks", devices->world);
  if (topology.nodes() > 1) line("ranks of a node", devices->node);
}

void write_sources(const Topology& topology, std::ostream& out) {
  if (topology.sources.empty()) return;
  out << "\nsources\n";
  for (const SourceReport& source : topology.sources) {
    out << "  " << padded(source.name, 12) << padded(source.used ? "used" : "not used", 10) << source.detail
        << "\n";
  }
}

}  // namespace

std::optional<DeviceBuffers> device_buffers(const Topology& topology, const std::vector<Record>& records,
                                            DeviceFacts facts, const Settings& settings) {
  const auto has_gpu = [](const Record& r) { return r.facts.gpus > 0 || r.gpu.gpu >= 0; };
  if (std::none_of(records.begin(), records.end(), has_gpu)) return std::nullopt;
  const auto with_gpu = std::find_if(records.begin(), records.end(), has_gpu);
  facts.in_use = true;
  facts.cuda_only = with_gpu->gpu.name.empty() || with_gpu->gpu.name.rfind("NVIDIA", 0) == 0;
  facts.nodes = topology.nodes();
  facts.ranks = topology.ranks;
  facts.ranks_of_node = 0;
  for (const std::vector<int>& ranks : ranks_of_nodes(topology))
    facts.ranks_of_node = std::max(facts.ranks_of_node, static_cast<int>(ranks.size()));
  DeviceBuffers devices;
  devices.world = decide_device_way(facts, settings);
  facts.nodes = 1;
  facts.ranks = facts.ranks_of_node;
  devices.node = decide_device_way(facts, settings);
  return devices;
}

std::string as_text(const Topology& topology, const std::vector<Record>& records,
                    const std::optional<DeviceBuffers>& devices, int nodes_shown) {
  std::ostringstream out;
  out << topology.name << ": " << plural(static_cast<std::size_t>(topology.ranks), "rank") << " on "
      << plural(static_cast<std::size_t>(topology.nodes()), "node");
  if (topology.cores_per_rank) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", *topology.cores_per_rank);
    out << ", " << text << " cores for each rank";
  }
  out << "\n\n";
  write_levels(topology, out);
  out << "\nranks" << (topology.rails.empty() ? "" : " -> NICs") << "\n";
  const std::vector<std::vector<int>> nodes = ranks_of_nodes(topology);
  const int shown = std::min(nodes_shown, topology.nodes());
  for (int n = 0; n < shown; ++n) write_node(topology, records, n, nodes[static_cast<std::size_t>(n)], out);
  if (shown < topology.nodes()) {
    out << "  ... and " << plural(static_cast<std::size_t>(topology.nodes() - shown), "node")
        << " more (--all lists them)\n";
  }
  write_devices(topology, devices, out);
  write_sources(topology, out);
  const std::vector<Hint> hints = find_hints(topology, records);
  if (!hints.empty()) out << "\nhints\n";
  for (const Hint& hint : hints)
    out << "  * " << hint.text << " [" << hint.kind << "]\n      " << hint.advice << "\n";
  return out.str();
}

std::string results_text(const ResultsFile& file, const ResultsWhere& here, int today) {
  if (file.path.empty()) return "nothing is kept (TAPA_CACHE names no file)";
  if (!file.problem.empty()) return file.path + ": not used: " + file.problem;
  std::size_t all = 0;
  std::size_t machine = 0;
  for (const ShapeResults& shape : file.content.shapes) {
    all += shape.sizes.size();
    if (!shape.where.same_machine(here)) continue;
    for (const ShapeResults& fits : fitting({{shape}}, shape.where, 0, today)) machine += fits.sizes.size();
  }
  if (all == 0) return file.path + ": empty";
  std::size_t job = 0;
  for (const ShapeResults& shape : fitting(file.content, here, 0, today)) job += shape.sizes.size();
  return file.path + ": " + plural(all, "size") + " of " + plural(file.content.shapes.size(), "kind") +
         " of communicators, " + std::to_string(machine) + " from this machine with these libraries, " +
         std::to_string(job) + " of these from jobs of " +
         plural(static_cast<std::size_t>(here.job), "rank") + " with these settings";
}

std::string machines_table() {
  std::ostringstream out;
  for (const MachineFile& file : shipped_machines()) {
    out << padded(file.name, 16);
    try {
      const Machine machine = load_machine(file.name);
      out << machine.description << "\n" << padded("", 16) << file.path << "\n";
    } catch (const std::invalid_argument& error) {
      out << "unusable: " << error.what() << "\n";
    }
  }
  return out.str();
}

std::string algorithms_table(const Topology& topology, const std::vector<std::size_t>& sizes) {
  const Rates rates = rates_from(topology);
  std::ostringstream out;
  out << "predicted for " << topology.name << ", " << topology.ranks << " ranks; sizes are bytes per pair\n";
  for (const AlgorithmInfo& algorithm : algorithms()) {
    out << "\n" << algorithm.name << ": " << algorithm.summary << "\n";
    if (!algorithm.supports.empty()) out << "  supports  " << algorithm.supports << "\n";
    if (!algorithm.cost.empty()) out << "  cost      " << algorithm.cost << "\n";
    if (!algorithm.source.empty()) out << "  source    " << algorithm.source << "\n";
    for (std::size_t size : sizes) {
      const std::vector<Candidate> ranked = rank_candidates(topology, rates, {}, size, {false, true});
      const auto best = std::find_if(ranked.begin(), ranked.end(), [&](const Candidate& c) {
        return c.choice.algorithm == algorithm.algorithm;
      });
      if (best == ranked.end()) continue;
      out << "  " << padded(std::to_string(size) + " B", 10) << padded(time_text(best->seconds), 10)
          << to_string(best->choice) << (best == ranked.begin() ? "  <- fastest" : "") << "\n";
    }
  }
  return out.str();
}

}  // namespace tapa::info
