/// @file
/// Which GPUs of a host reach each other: all of them, groups of some, joined by bridges, or none, as in
/// hosts of cards that refuse peer access.
#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "device/agreement.hpp"
#include "plan/partition.hpp"
#include "topology/gpu_peers.hpp"

namespace tapa::device {

/// Ranks whose memory is within reach of all others of their group, as nodes of their own.
struct Islands {
  Partition groups;
  bool one_host = false;  ///< all are on one host: its memory joins the groups
};

/// Splits nodes into groups of ranks that reach each other, both ways: each rank joins the first group of its
/// node whose members it all reaches, in order of ranks. Pure.
[[nodiscard]] Partition split_by_reach(const Partition& nodes, const std::function<bool(int, int)>& reaches);

/// Whom TAPA_GPU_PEERS lets a rank reach, as ranks tell each other.
struct WantedPeers {
  bool some = true;
  std::array<char, GpuPeers::kMostLetters> group{};  ///< only ranks of the same
};

/// Of its text. Throws DeviceError. Pure.
[[nodiscard]] WantedPeers wanted_peers(std::string_view text);

/// What the ranks' devices, the current ones, reach, of those that TAPA_GPU_PEERS allows. Collective. Throws
/// DeviceError, on all ranks alike.
[[nodiscard]] Islands agree_on_islands(const Agreement& agreement, const Partition& nodes);

}  // namespace tapa::device
