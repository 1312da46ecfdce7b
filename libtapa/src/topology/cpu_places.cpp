#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "topology/sysfs.hpp"

namespace tapa {

namespace fs = std::filesystem;

namespace {

using Cpus = std::vector<int>;  // ascending

constexpr int kMostCpus = 1 << 16;

Cpus list_in(const std::string& path) {
  return parse_cpu_list(read_line(path));
}

int number_in(const std::string& path, int otherwise) {
  const std::string line = read_line(path);
  int value = otherwise;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

bool includes(const Cpus& all, const Cpus& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

bool intersects(const Cpus& a, const Cpus& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int cpu) { return std::binary_search(b.begin(), b.end(), cpu); });
}

Cpus common(const Cpus& a, const Cpus& b) {
  Cpus both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

std::string cpu_folder(const std::string& sys, int cpu) {
  return sys + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

/// The first of the names that a kernel has: they were renamed in Linux 5.x.
Cpus siblings(const std::string& folder, const char* name, const char* old_name) {
  Cpus list = list_in(folder + name);
  return list.empty() ? list_in(folder + old_name) : list;
}

/// Reads one file for each core, not for each CPU.
int count_cores(const std::string& sys, const Cpus& cpus) {
  std::vector<bool> seen(cpus.empty() ? 0 : static_cast<std::size_t>(cpus.back()) + 1);
  int cores = 0;
  for (const int cpu : cpus) {
    if (seen[static_cast<std::size_t>(cpu)]) continue;
    ++cores;
    for (const int other :
         siblings(cpu_folder(sys, cpu) + "topology/", "core_cpus_list", "thread_siblings_list")) {
      if (static_cast<std::size_t>(other) < seen.size()) seen[static_cast<std::size_t>(other)] = true;
    }
  }
  return cores;
}

/// A part of the machine: its number, -1 when there is none, and its CPUs.
struct Place {
  int number = -1;
  Cpus cpus;
};

/// The L3 cache is known by its first CPU, as the kernel's own numbers for caches are not always there.
Place l3_of(const std::string& sys, int cpu) {
  const std::string caches = cpu_folder(sys, cpu) + "cache/index";
  for (int index = 0;; ++index) {
    const std::string cache = caches + std::to_string(index) + "/";
    const int level = number_in(cache + "level", -1);
    if (level < 0) return {};
    if (level != 3 || read_line(cache + "type") == "Instruction") continue;
    Cpus cpus = list_in(cache + "shared_cpu_list");
    if (cpus.empty()) return {};
    const int first = cpus.front();
    return {first, std::move(cpus)};
  }
}

Place socket_of(const std::string& sys, int cpu) {
  const std::string folder = cpu_folder(sys, cpu) + "topology/";
  Cpus cpus = siblings(folder, "package_cpus_list", "core_siblings_list");
  if (cpus.empty()) return {};
  const int number = number_in(folder + "physical_package_id", -1);
  const int first = cpus.front();
  return {number < 0 ? first : number, std::move(cpus)};
}

/// NUMA nodes with CPUs, by number. A kernel without NUMA has one that it does not show.
std::vector<Place> numa_nodes(const std::string& sys, const Cpus& online) {
  const std::string folder = sys + "/devices/system/node/";
  std::vector<Place> nodes;
  for (const int node : list_in(folder + "online")) {
    Cpus cpus = list_in(folder + "node" + std::to_string(node) + "/cpulist");
    if (!cpus.empty()) nodes.push_back({node, std::move(cpus)});
  }
  if (nodes.empty()) nodes.push_back({0, online});
  return nodes;
}

/// The CPUs next to a NIC; empty when it is no PCI device.
Cpus cpus_near(const std::string& sys, const Nic& nic) {
  return nic.pci.empty() ? Cpus{} : list_in(sys + "/bus/pci/devices/" + nic.pci + "/local_cpulist");
}

/// The only NUMA node that a NIC is near to, -1 when there are several.
int numa_of(const std::vector<Place>& nodes, const Cpus& near) {
  int found = -1;
  for (const Place& node : nodes) {
    if (!intersects(node.cpus, near)) continue;
    if (found >= 0) return -1;
    found = node.number;
  }
  return found;
}

/// NICs in the smallest place around the process that has any.
std::vector<int> nearest(std::vector<const Place*> places, const std::vector<Cpus>& near) {
  std::stable_sort(places.begin(), places.end(),
                   [](const Place* a, const Place* b) { return a->cpus.size() < b->cpus.size(); });
  std::vector<int> found;
  for (const Place* place : places) {
    for (std::size_t n = 0; n < near.size(); ++n) {
      if (!near[n].empty() && includes(place->cpus, near[n])) found.push_back(static_cast<int>(n));
    }
    if (!found.empty()) return found;
  }
  for (std::size_t n = 0; n < near.size(); ++n) {  // the whole machine
    if (!near[n].empty()) found.push_back(static_cast<int>(n));
  }
  return found;
}

/// CPUs that a control group leaves: the nearest group upwards that has the file. Empty when none has.
Cpus group_cpus(const fs::path& root, const std::string& group, std::initializer_list<const char*> names) {
  if (group.find("..") != std::string::npos) return {};  // outside of what this container sees
  fs::path at = fs::path(group).relative_path();
  while (true) {
    for (const char* name : names) {
      if (Cpus cpus = list_in((root / at / name).string()); !cpus.empty()) return cpus;
    }
    if (at.empty()) return {};
    at = at.parent_path();
  }
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  Cpus list;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = -1;
    const char* end = range.data() + range.size();
    const auto [dash, error] = std::from_chars(range.data(), end, first);
    int last = first;
    if (error == std::errc() && dash != end && *dash == '-') std::from_chars(dash + 1, end, last);
    if (error != std::errc() || first < 0 || last < first || last >= kMostCpus) return {};
    for (int cpu = first; cpu <= last; ++cpu) list.push_back(cpu);
  }
  if (!std::is_sorted(list.begin(), list.end())) return {};
  return list;
}

std::vector<int> allowed_cpus(const std::string& proc, const std::string& sys) {
  Cpus online = list_in(sys + "/devices/system/cpu/online");
  std::ifstream groups(proc + "/self/cgroup");  // lines "id:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    Cpus cpus;
    if (controllers.find(",cpuset,") != std::string::npos) {
      cpus = group_cpus(sys + "/fs/cgroup/cpuset", path, {"cpuset.effective_cpus", "cpuset.cpus"});
    } else if (controllers == ",,") {
      cpus = group_cpus(sys + "/fs/cgroup", path, {"cpuset.cpus.effective"});
    }
    if (Cpus left = common(online, cpus); !left.empty()) return left;
  }
  return online;
}

std::vector<int> scheduled_cpus() {
  Cpus list;
  // A mask that is too small for the machine is refused.
  for (int most = 1024; most <= kMostCpus; most *= 4) {
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<std::size_t>(most)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (!set) return list;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (int cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) list.push_back(cpu);
    }
    return list;
  }
  return list;
}

bool add_places(const std::string& sys, const std::vector<int>& allowed, const std::vector<int>& scheduled,
                Record& record) {
  if (allowed.empty()) return false;
  Cpus cpus = common(scheduled, allowed);
  if (cpus.empty()) cpus = allowed;
  const Place l3 = l3_of(sys, cpus.front());
  const Place socket = socket_of(sys, cpus.front());
  const std::vector<Place> nodes = numa_nodes(sys, allowed);
  record.cores = count_cores(sys, allowed);
  record.allowed = cpu_list(allowed);
  std::vector<const Place*> around;
  const auto put = [&](const Place& place, int& number) {
    if (place.number < 0 || !includes(place.cpus, cpus)) return;
    if (number < 0) number = place.number;
    around.push_back(&place);
  };
  put(l3, record.l3);
  put(socket, record.socket);
  for (const Place& node : nodes) put(node, record.numa);
  std::vector<Cpus> near;
  for (Nic& nic : record.nics) {
    near.push_back(cpus_near(sys, nic));
    if (nic.numa < 0 && !near.back().empty()) nic.numa = numa_of(nodes, near.back());
  }
  record.near = nearest(std::move(around), near);
  if (cpus == allowed) return true;
  record.bound_cores = count_cores(sys, cpus);
  record.cpus = cpu_list(cpus);
  return true;
}

}  // namespace tapa
