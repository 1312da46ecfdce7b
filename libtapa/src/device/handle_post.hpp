/// @file
/// Handles of memory, which are file descriptors, from every rank to the other ranks of its node: by messages
/// of Unix sockets, the one way that needs no right over the other process. Other users of the machine cannot
/// disturb it. Knows no CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/descriptor.hpp"

namespace tapa::device {

/// A piece of memory that other processes can map.
struct Handle {
  Descriptor file;
  std::uint64_t bytes = 0;
};

/// The handles of a rank.
struct Delivery {
  std::vector<Handle> handles;  ///< all of them, in its order, or none
  std::string missing;          ///< why there are none, of a rank that has some
};

/// What every rank has, this one too. Collective, also for ranks without handles and for those of other
/// nodes. Throws DeviceError when the caller's allgather fails.
[[nodiscard]] std::vector<Delivery> post_handles(const Agreement& agreement, std::vector<Handle> mine);

}  // namespace tapa::device
