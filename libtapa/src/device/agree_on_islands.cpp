#include <cstdint>
#include <optional>
#include <string_view>
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

/// Whether GPUs may be peers, as TAPA_GPU_PEERS says. Throws DeviceError.
bool peers_are_wanted() {
  const char* const value = files::variable("TAPA_GPU_PEERS");
  const std::string_view word = value == nullptr ? "" : value;
  if (word.empty() || word == "1") return true;
  if (word == "0") return false;
  throw DeviceError(TAPA_DEVICE_ERR_ARG, "TAPA_GPU_PEERS is \"" + std::string(word) + "\", expected 0 or 1");
}

bool can_map(const Export& memory) {
  if (memory.by != Export::By::ipc) return false;
  try {
    (void)Import(memory);
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

/// Tries it: what the driver says of two devices leaves out containers, which see fewer of them, and systems
/// that refuse to share memory.
Row find_reached(const Agreement& agreement, const std::vector<int>& members) {
  std::optional<DeviceMemory> probe;
  Export mine{};
  bool wanted = true;
  agreement.together([&] {
    wanted = peers_are_wanted();
    probe.emplace(1);
    mine = export_memory(probe->get(), 1).how;
  });
  const std::vector<Export> exports = agreement.gather(mine);
  Row row = 0;
  for (std::size_t at = 0; at < members.size(); ++at) {
    const bool own = members[at] == agreement.rank();
    if (own || (wanted && can_map(exports[static_cast<std::size_t>(members[at])]))) row |= Row{1} << at;
  }
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
