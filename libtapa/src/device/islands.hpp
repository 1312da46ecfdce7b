/// @file
/// Which GPUs of a host reach each other: all of them, groups of some, joined by bridges, or none, as in
/// hosts of cards that refuse peer access.
#pragma once

#include <functional>

#include "device/agreement.hpp"
#include "plan/partition.hpp"

namespace tapa::device {

/// Ranks whose memory is within reach of all others of their group, as nodes of their own.
struct Islands {
  Partition groups;
  bool one_host = false;  ///< all are on one host: its memory joins the groups
};

/// Splits nodes into groups of ranks that reach each other, both ways: each rank joins the first group of its
/// node whose members it all reaches, in order of ranks. Pure.
[[nodiscard]] Partition split_by_reach(const Partition& nodes, const std::function<bool(int, int)>& reaches);

/// What the ranks' devices, the current ones, reach; nobody where TAPA_GPU_PEERS is 0. Collective. Throws
/// DeviceError, on all ranks alike.
[[nodiscard]] Islands agree_on_islands(const Agreement& agreement, const Partition& nodes);

}  // namespace tapa::device
