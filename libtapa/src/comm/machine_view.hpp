/// @file
/// What a communicator's ranks know of their machine, alike on all but where it says so.
#pragma once

#include "comm/plan_chooser.hpp"
#include "comm/setup.hpp"
#include "comm/shared_regions.hpp"
#include "world/options.hpp"

namespace tapa {

/// Topology, rates, measurements. Throws std::invalid_argument when what the options name cannot be read.
[[nodiscard]] MachineView view_machine(const Membership& membership, const Options& options, int rank);

/// Each rank may have a threshold of its own for blocks that stay: a block's way is its sender's decision.
[[nodiscard]] RegionManners manners_of(const Membership& membership, const Options& options);

/// Whether MPI spreads long messages over several NICs of a node, as Open MPI does above its eager limit.
[[nodiscard]] bool is_striped(const Membership& membership, const Topology& topology);

}  // namespace tapa
