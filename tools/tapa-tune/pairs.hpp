/// @file
/// Which ranks send to which when a level is measured. Pure.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tapa {

/// partners[r] is the rank that r is paired with, or -1. Pairs have `level` as their fastest common level.
/// With `all`, as many disjoint pairs as a greedy search finds; otherwise the first pair alone. All -1 when
/// the level has no pair of its own.
[[nodiscard]] std::vector<int> pair_up(const Topology& topology, int level, bool all);

/// Bytes per second of the busiest node's NIC, when rates[r] is what rank r sent to a partner on another node
/// at the same time as all others (0: it sent nothing): the node's sum over its number of NICs (at least
/// one).
[[nodiscard]] double nic_share(const Topology& topology, const std::vector<double>& rates);

}  // namespace tapa
