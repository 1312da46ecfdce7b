/// @file
/// Which wire joins the nodes of a communicator: what was asked for, or what works.
#pragma once

#include <memory>
#include <vector>

#include "device/agreement.hpp"
#include "device/lanes.hpp"

namespace tapa::device {

/// Collective. `wire`: a TAPA_DEVICE_WIRE. `peers`: ranks of other nodes. Throws DeviceError, on all ranks
/// alike, with what is missing for each wire.
[[nodiscard]] std::unique_ptr<Wire> choose_wire(const Agreement& agreement, const std::vector<int>& peers,
                                                int wire, const MessageOffer& offer, LocalState* state,
                                                Word timeout);

}  // namespace tapa::device
