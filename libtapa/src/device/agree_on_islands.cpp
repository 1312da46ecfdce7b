#include <cstdint>
#include <optional>
#include <vector>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/peer_memory.hpp"
#include "files/environment.hpp"

namespace tapa::device {

namespace {

/// A bit for each member of a rank's node, by their order: whether it reaches that one.
using Row = std::uint32_t;
static_assert(TAPA_DEVICE_MAX_RANKS <= 32);

bool can_map(const Export& memory) {
  if (memory.by != Export::By::ipc) return false;
  try {
    (void)Import(memory);
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

struct Offer {
  WantedPeers wanted;
  Export memory;
};

/// Tries it: what the driver says of two devices leaves out containers, which see fewer of them, and systems
/// that refuse to share memory.
Row find_reached(const Agreement& agreement, const std::vector<int>& members) {
  std::optional<DeviceMemory> probe;
  Offer mine{};
  agreement.together([&] {
    const char* const text = files::variable("TAPA_GPU_PEERS");
    mine.wanted = wanted_peers(text == nullptr ? "" : text);
    probe.emplace(1);
    mine.memory = export_memory(probe->get(), 1).how;
  });
  const std::vector<Offer> offers = agreement.gather(mine);
  const auto reaches = [&](const Offer& other) {
    return mine.wanted.some && mine.wanted.group == other.wanted.group && can_map(other.memory);
  };
  Row row = 0;
  for (std::size_t at = 0; at < members.size(); ++at) {
    const bool own = members[at] == agreement.rank();
    if (own || reaches(offers[static_cast<std::size_t>(members[at])])) row |= Row{1} << at;
  }
  agreement.meet();  // until then the others may still be opening the probe
  return row;
}

}  // namespace

Islands agree_on_islands(const Agreement& agreement, const Partition& nodes) {
  if (nodes.groups() == agreement.size()) return {nodes, nodes.groups() == 1};
  const std::vector<int>& members = nodes.members_of(nodes.group_of(agreement.rank()));
  const std::vector<Row> rows = agreement.gather(find_reached(agreement, members));
  const auto reaches = [&](int rank, int other) {
    return (rows[static_cast<std::size_t>(rank)] >> nodes.index_of(other) & 1) != 0;
  };
  return {split_by_reach(nodes, reaches), nodes.groups() == 1};
}

}  // namespace tapa::device
