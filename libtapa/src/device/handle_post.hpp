/// @file
/// Handles of memory, which are file descriptors, from every rank to the other ranks of its node: by messages
/// of Unix sockets, the one way that needs no right over the other process. Knows no CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "device/agreement.hpp"
#include "device/descriptor.hpp"

namespace tapa::device {

/// A piece of memory that other processes can map.
struct Handle {
  Descriptor file;
  std::uint64_t bytes = 0;
};

/// Every rank's handles, in its order; this rank's own come back, too. A rank that has none, or whose handles
/// the system did not carry here, all of them, has an empty list. Collective, also for ranks without handles
/// and for those of other nodes. Throws DeviceError when the caller's allgather fails.
[[nodiscard]] std::vector<std::vector<Handle>> post_handles(const Agreement& agreement,
                                                            std::vector<Handle> mine);

}  // namespace tapa::device
