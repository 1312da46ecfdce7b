#include <algorithm>
#include <map>
#include <set>

#include "info.hpp"

namespace tapa::info {

namespace {

using Hints = std::vector<Hint>;

/// Ranks for which `is` holds.
template <class Is>
std::vector<int> ranks_where(const std::vector<Record>& records, const Is& is) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (is(records[r])) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

std::string were(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? " is " : " are ";
}

void binding_hints(const Topology& topology, const std::vector<Record>& records, Hints& hints) {
  const double share = topology.cores_per_rank.value_or(1);
  if (share < 1) {
    hints.push_back(
        {"oversubscribed",
         "ranks share cores: " + std::to_string(share).substr(0, 5) + " cores for each rank",
         "start fewer ranks, or let waiting ranks give way: OMPI_MCA_mpi_yield_when_idle=1 (Open MPI); times "
         "of small messages say little here"});
    return;
  }
  const std::vector<int> unbound =
      ranks_where(records, [](const Record& r) { return r.cores > 1 && r.bound_cores == 0; });
  if (!unbound.empty() && records.size() > 1) {
    hints.push_back(
        {"unbound", ranks_text(unbound) + were(unbound) + "not bound to cores",
         "the system moves them about, and sockets are not known: mpirun --bind-to core (Open MPI), "
         "-bind-to core (MPICH), srun --cpu-bind=cores"});
  }
  std::map<std::pair<std::string, std::string>, std::vector<int>> together;
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (records[r].bound_cores == 1)
      together[{records[r].kernel, records[r].cpus}].push_back(static_cast<int>(r));
  }
  for (const auto& [place, ranks] : together) {
    if (ranks.size() > 1) {
      hints.push_back({"same-core",
                       ranks_text(ranks) + " are bound to the same core (CPU " + place.second + ")",
                       "bind each rank to a core of its own; mpirun --report-bindings shows what was done"});
      return;  // one example tells it
    }
  }
}

void nic_hints(const Topology& topology, const std::vector<Record>& records, Hints& hints) {
  if (topology.nodes() > 1 && topology.nics.empty()) {
    hints.push_back({"no-nic", "no NIC was found that could join the nodes",
                     "name the interfaces with TAPA_NICS=name[,name]; tapa-info then shows them"});
    return;
  }
  if (topology.nodes() == 1) return;  // nothing crosses a NIC
  std::set<std::string> unknown;
  std::set<std::string> made_up;
  bool tcp = false;
  for (const Nic& nic : topology.nics) {
    if (!nic.bandwidth) unknown.insert(nic.name);
    if (records.empty()) continue;
    if (nic.pci.empty()) made_up.insert(nic.name);
    tcp = tcp || (nic.provider == "tcp" && !nic.pci.empty());
  }
  if (!unknown.empty()) {
    hints.push_back({"nic-rate", "the speed of " + *unknown.begin() + " is unknown",
                     "set it: TAPA_NIC_RATE=25gbit, or " + *unknown.begin() +
                         "=25gbit for this one; plans for large "
                         "messages depend on it"});
  }
  if (!made_up.empty()) {
    hints.push_back(
        {"virtual-nic", *made_up.begin() + " is a virtual NIC (no PCI device)",
         "it is as fast as what lies below it; if there is a real one that this process does not see, give "
         "the container or namespace the host's network"});
  }
  if (tcp) {
    hints.push_back({"tcp", "the nodes are joined by TCP: no RDMA device is visible",
                     "if the machine has InfiniBand or Slingshot: look for /dev/infiniband or /dev/cxi0 in "
                     "the container, "
                     "and for the libfabric or UCX that supports it"});
  }
}

/// NICs that idle or serve more ranks than others, and NICs across the socket boundary.
void rail_hints(const Topology& topology, const std::vector<Record>& records, Hints& hints) {
  if (topology.nodes() == 1 || topology.rails.empty()) return;
  std::vector<int> users(topology.nics.size(), 0);
  for (const std::vector<int>& rails : topology.rails) {
    for (int nic : rails) ++users[static_cast<std::size_t>(nic)];
  }
  std::vector<int> least(static_cast<std::size_t>(topology.nodes()), topology.ranks);
  std::vector<int> most(static_cast<std::size_t>(topology.nodes()), 0);
  for (std::size_t n = 0; n < users.size(); ++n) {
    const auto node = static_cast<std::size_t>(topology.nics[n].node);
    least[node] = std::min(least[node], users[n]);
    most[node] = std::max(most[node], users[n]);
  }
  for (std::size_t node = 0; node < least.size(); ++node) {
    if (least[node] >= most[node]) continue;
    const std::string name = node_name(topology, records, static_cast<int>(node));
    if (least[node] == 0) {
      hints.push_back({"idle-nic",
                       "a NIC of " + name + " serves no rank, another serves " + std::to_string(most[node]),
                       "start at least one rank for each NIC, spread over the sockets"});
    } else {
      hints.push_back(
          {"uneven-rails",
           "the NICs of " + name + " serve " + std::to_string(least[node]) + " to " +
               std::to_string(most[node]) + " ranks each",
           "large exchanges take as long as the fullest NIC: use a multiple of the number of NICs"});
    }
    break;  // one node tells it
  }
  std::vector<int> far;
  for (std::size_t r = 0; r < topology.rails.size(); ++r) {
    const bool has_device = r < topology.devices.size();
    const int here = has_device ? topology.devices[r].numa : r < records.size() ? records[r].numa : -1;
    for (int nic : topology.rails[r]) {
      const int there = topology.nics[static_cast<std::size_t>(nic)].numa;
      if (here >= 0 && there >= 0 && here != there) {
        far.push_back(static_cast<int>(r));
        break;
      }
    }
  }
  if (!far.empty()) {
    hints.push_back(
        {"far-nic", ranks_text(far) + were(far) + "on another NUMA node than their NIC",
         "messages cross the link between sockets; bind these ranks next to a NIC if cores are free there"});
  }
}

void host_hints(const std::vector<Record>& records, Hints& hints) {
  const std::vector<int> no_gpu =
      ranks_where(records, [](const Record& r) { return r.facts.gpus > 1 && r.gpu.gpu < 0; });
  if (!no_gpu.empty()) {
    hints.push_back({"gpu-unknown", "there are GPUs, but nothing says which " + ranks_text(no_gpu) + " drive",
                     "give each rank one: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or ZE_AFFINITY_MASK, by "
                     "local rank"});
  }
  const auto small_shm = ranks_where(
      records, [](const Record& r) { return r.facts.shm_free >= 0 && r.facts.shm_free < 128.0 * (1 << 20); });
  if (!small_shm.empty()) {
    hints.push_back(
        {"small-shm", "less than 128 MiB is free in /dev/shm for " + ranks_text(small_shm),
         "MPI falls back to slower ways inside a node: docker run --shm-size=2g, or remove old files there"});
  }
  const auto scoped = ranks_where(records, [](const Record& r) { return r.facts.ptrace_scope > 0; });
  if (!scoped.empty()) {
    hints.push_back(
        {"ptrace-scope", "kernel.yama.ptrace_scope forbids cross-memory attach",
         "large messages inside a node are copied twice: sysctl kernel.yama.ptrace_scope=0 (root)"});
  }
  const auto no_pages = ranks_where(records, [](const Record& r) { return r.facts.huge_pages == "never"; });
  if (!no_pages.empty()) {
    hints.push_back(
        {"huge-pages", "transparent huge pages are off",
         "large buffers then miss the TLB often: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled "
         "(root)"});
  }
}

void shape_hints(const Topology& topology, const std::vector<Record>& records, Hints& hints) {
  for (const SourceReport& source : topology.sources) {
    if (source.name == "mpi" && !source.used) {
      hints.push_back(
          {"mpi-nodes", "MPI sees other nodes than this library: " + source.detail,
           "if ranks of one node cannot share memory, check that they share the IPC namespace and /dev/shm"});
    }
    if (source.name == "hwloc" && !source.used) {
      hints.push_back({"no-hwloc", "hwloc gave nothing: " + source.detail,
                       "which GPU a rank drives stays unknown: install libhwloc-dev and build again"});
    }
    if (source.name == "environment") {
      hints.push_back({"environment", source.detail, "correct the variable"});
    }
  }
  std::size_t least = static_cast<std::size_t>(topology.ranks);
  std::size_t most = 0;
  for (const std::vector<int>& node : ranks_of_nodes(topology)) {
    least = std::min(least, node.size());
    most = std::max(most, node.size());
  }
  if (!records.empty() && least != most) {
    hints.push_back({"unequal-nodes",
                     "nodes have " + std::to_string(least) + " to " + std::to_string(most) + " ranks",
                     "this works, but the fullest node decides the time"});
  }
}

}  // namespace

std::vector<Hint> find_hints(const Topology& topology, const std::vector<Record>& records) {
  Hints hints;
  binding_hints(topology, records, hints);
  nic_hints(topology, records, hints);
  rail_hints(topology, records, hints);
  host_hints(records, hints);
  shape_hints(topology, records, hints);
  return hints;
}

}  // namespace tapa::info
