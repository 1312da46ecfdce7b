#include "device/places.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "device/device_error.hpp"
#include "device/lane_plan.hpp"
#include "files/environment.hpp"

namespace tapa::device {

namespace {

/// Where a process runs.
struct Process {
  std::array<char, 128> node;
  pid_t id;
};

Process this_process() {
  Process mine{};
  std::snprintf(mine.node.data(), mine.node.size(), "%s", own_node().c_str());
  mine.id = getpid();
  return mine;
}

void check_node(const std::vector<int>& members, const std::vector<Process>& processes) {
  if (members.size() > TAPA_DEVICE_MAX_RANKS) {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "the node of rank " + std::to_string(members[0]) +
                                                       " has " + std::to_string(members.size()) +
                                                       " ranks, expected at most " +
                                                       std::to_string(TAPA_DEVICE_MAX_RANKS));
  }
  for (std::size_t one = 0; one < members.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      const auto id_of = [&](std::size_t member) {
        return processes[static_cast<std::size_t>(members[member])].id;
      };
      if (id_of(one) != id_of(other)) continue;
      throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "ranks " + std::to_string(members[other]) + " and " +
                                                         std::to_string(members[one]) +
                                                         " are one process, expected one for each rank");
    }
  }
}

}  // namespace

std::string boot_of_machine() {
  std::array<char, 64> boot{};  // a stream does not tell that a string finds no memory
  std::ifstream("/proc/sys/kernel/random/boot_id").getline(boot.data(), boot.size());
  return boot.data();
}

std::string own_processes() {
  std::array<char, 64> processes{};
  const ssize_t length = readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1);
  return boot_of_machine() + "/" + (length > 0 ? processes.data() : "");
}

std::string own_node() {
  const char* const label = files::variable("TAPA_DEVICE_NODE");
  return own_processes() + "/" + (label == nullptr ? "" : label);
}

Partition agree_on_nodes(const Agreement& agreement) {
  const std::vector<Process> processes = agreement.gather(this_process());
  std::vector<std::string> names;
  for (const Process& each : processes) names.emplace_back(each.node.data());
  Partition nodes = nodes_of_names(names);
  for (const std::vector<int>& members : nodes.members) check_node(members, processes);
  return nodes;
}

}  // namespace tapa::device
