/// @file
/// The blocks of TAPA_Device_alltoall_strided as its caller gives them. Knows no CUDA.
#pragma once

#include <array>

#include "device/strides.hpp"
#include "tapa/device.h"

namespace tapa::device {

/// A block's rows in as few as can be. Throws DeviceError when it is none: too long, out of the address
/// space, or, of blocks to receive, with rows that overlap. `name` and `peer`: the argument and its entry.
[[nodiscard]] Strides strides_of(const char* name, int peer, const TAPA_Device_block& block, bool receives);

/// The blocks of one call.
struct StridedLayout {
  std::array<PlacedBlock, kMaxRanks> send{};
  std::array<PlacedBlock, kMaxRanks> receive{};
};

/// Throws DeviceError when a block is none, or a rank's own is not as long where it is sent as where it is
/// received.
[[nodiscard]] StridedLayout strided_layout(int rank, int size, const TAPA_Device_block* send,
                                           const TAPA_Device_block* receive);
/// Bytes of all blocks of a side.
[[nodiscard]] std::size_t total_bytes(const std::array<PlacedBlock, kMaxRanks>& side);

}  // namespace tapa::device
