#include <algorithm>
#include <string>
#include <vector>

#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/lane_plan.hpp"
#include "topology/reach_groups.hpp"

namespace tapa::device {

WantedPeers wanted_peers(std::string_view text) {
  const auto read = read_gpu_peers(text);
  if (!read)
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "TAPA_GPU_PEERS is \"" + std::string(text) +
                                               "\", expected 0, 1, or group: and a name of at most " +
                                               std::to_string(GpuPeers::kMostLetters) + " letters");
  WantedPeers wanted{read->some, {}};
  std::ranges::copy(read->group, wanted.group.begin());
  return wanted;
}

Partition split_by_reach(const Partition& nodes, const std::function<bool(int, int)>& reaches) {
  std::vector<std::string> names(nodes.group.size());
  for (int node = 0; node < nodes.groups(); ++node) {
    const std::vector<int>& members = nodes.members_of(node);
    const std::vector<int> group = groups_by_reach(members.size(), [&](std::size_t a, std::size_t b) {
      return reaches(members[a], members[b]) && reaches(members[b], members[a]);
    });
    for (std::size_t m = 0; m < members.size(); ++m)
      names[static_cast<std::size_t>(members[m])] = std::to_string(node) + " " + std::to_string(group[m]);
  }
  return nodes_of_names(names);
}

}  // namespace tapa::device
