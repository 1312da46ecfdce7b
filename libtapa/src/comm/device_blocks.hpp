/// @file
/// The blocks of one side of a call with buffers in GPU memory: where they are, and how they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/device_way.hpp"
#include "run/arguments.hpp"
#include "run/cuda_driver.hpp"

namespace tapa {

/// As the device engine takes them.
struct DeviceBlocks {
  std::vector<std::size_t> bytes, displs;  ///< displacements from `base`
  std::byte* base = nullptr;               ///< the lowest block that has any bytes
  std::uintptr_t low = 0, high = 0;        ///< where that one and the highest begin
  std::size_t longest = 0, total = 0;
  SidePlace place;
  std::optional<CudaMemory> memory;  ///< of a block that is on a device
  CudaMemory last;                   ///< where a block of the last call was
  std::vector<CudaMemory> parts;     ///< all allocations that blocks are in

  /// Those of a call's side. `engine`: on whose device there is an engine already, or null.
  void describe(const Arguments& arguments, const Side& side, int ranks, const CudaMemory* engine);
  /// Whether blocks are alike and lie one behind the other, in order of ranks.
  [[nodiscard]] bool in_row() const;

 private:
  void locate(const Side& side, const CudaMemory* engine);
};

}  // namespace tapa
