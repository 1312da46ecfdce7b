/// @file
/// Which NICs the messages of simulated ranks take.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tapa::sim {

/// For each rank the NICs over which its messages are spread, sorted; empty where it has none. Ranks have all
/// their rails where no two of them share some rails but not all; else each has one, by its number.
[[nodiscard]] std::vector<std::vector<int>> rails_in_use(const Topology& topology);

}  // namespace tapa::sim
