/// @file
/// Which wire joins the nodes of a communicator: what was asked for, or what works.
#pragma once

#include <memory>
#include <vector>

#include "device/agreement.hpp"
#include "device/lanes.hpp"

namespace tapa::device {

/// Whom a wire joins a rank to.
struct Others {
  std::vector<int> ranks;  ///< ascending
  bool on_this_host;       ///< of all ranks alike
};

/// Collective. `wire`: a TAPA_DEVICE_WIRE. Throws DeviceError, on all ranks alike, with what is missing for
/// each wire.
[[nodiscard]] std::unique_ptr<Wire> choose_wire(const Agreement& agreement, const Others& others, int wire,
                                                const MessageOffer& offer, LocalState* state, Word timeout);

}  // namespace tapa::device
