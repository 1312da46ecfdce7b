#include <algorithm>
#include <string>
#include <vector>

#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/lane_plan.hpp"
#include "topology/reach_groups.hpp"

namespace tapa::device {

WantedPeers wanted_peers(std::string_view text) {
  constexpr std::string_view kGroup = "group:";
  WantedPeers wanted;
  if (text.empty() || text == "1") return wanted;
  if (text == "0") {
    wanted.some = false;
    return wanted;
  }
  const std::string_view name = text.starts_with(kGroup) ? text.substr(kGroup.size()) : "";
  if (name.empty() || name.size() > wanted.group.size())
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "TAPA_GPU_PEERS is \"" + std::string(text) +
                                               "\", expected 0, 1, or group: and a name of at most " +
                                               std::to_string(wanted.group.size()) + " letters");
  std::ranges::copy(name, wanted.group.begin());
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
