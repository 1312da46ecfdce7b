#include <algorithm>
#include <string>
#include <vector>

#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/lane_plan.hpp"

namespace tapa::device {

namespace {

/// The groups of one node, into which its members come one after the other.
class Groups {
 public:
  explicit Groups(const std::function<bool(int, int)>& reaches) : reaches_(reaches) {}

  /// Number of the group that a rank joins.
  std::size_t join(int rank) {
    const auto found = std::ranges::find_if(groups_, [&](const std::vector<int>& members) {
      return std::ranges::all_of(members,
                                 [&](int other) { return reaches_(rank, other) && reaches_(other, rank); });
    });
    const auto at = static_cast<std::size_t>(found - groups_.begin());
    if (found == groups_.end()) groups_.emplace_back();
    groups_[at].push_back(rank);
    return at;
  }

 private:
  const std::function<bool(int, int)>& reaches_;
  std::vector<std::vector<int>> groups_;
};

}  // namespace

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
    Groups groups(reaches);
    for (const int rank : nodes.members_of(node)) {
      names[static_cast<std::size_t>(rank)] = std::to_string(node) + " " + std::to_string(groups.join(rank));
    }
  }
  return nodes_of_names(names);
}

}  // namespace tapa::device
