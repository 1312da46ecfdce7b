/// @file
/// The blocks of one side of a call with buffers in GPU memory: where they are, and how they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "comm/device_way.hpp"
#include "run/arguments.hpp"
#include "run/cuda_driver.hpp"
#include "run/device_memory.hpp"

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
  void describe(const Arguments& a, const Side& side, int ranks, const CudaMemory* engine) {
    bytes.assign(static_cast<std::size_t>(ranks), 0);
    displs.assign(bytes.size(), 0);
    place = {};
    memory.reset();
    parts.clear();
    longest = total = 0;
    low = std::numeric_limits<std::uintptr_t>::max();
    high = 0;
    TypeInfo info;
    for (int peer = 0; peer < ranks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (peer == 0 || a.form == Form::w) info = type_info(side.type_of(peer));
      const MPI_Count count = side.count_of(peer);
      bytes[at] = block_bytes(info, count);
      if (bytes[at] == 0) continue;
      const MPI_Aint offset = block_offset(a.form, side, info, peer) + info.first;
      displs[at] = reinterpret_cast<std::uintptr_t>(address_at(side.buffer, offset));
      low = std::min<std::uintptr_t>(low, displs[at]);
      high = std::max<std::uintptr_t>(high, displs[at]);
      place.dense = place.dense && info.dense(count);
      longest = std::max(longest, bytes[at]);
      total += bytes[at];
    }
    locate(side, engine);
    base = total == 0 ? nullptr : reinterpret_cast<std::byte*>(low);
    for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
      if (bytes[peer] > 0) displs[peer] -= low;
    }
  }
  /// Whether blocks are alike and lie one behind the other, in order of ranks.
  [[nodiscard]] bool in_row() const {
    for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
      if (bytes[peer] != bytes[0] || (bytes[0] > 0 && displs[peer] != peer * bytes[0])) return false;
    }
    return true;
  }

 private:
  static bool serves(const CudaMemory* engine, const CudaMemory& memory) {
    if (engine == nullptr) return true;
    const bool same_context =
        memory.context == engine->context || memory.context == nullptr || engine->context == nullptr;
    return memory.device == engine->device && same_context;
  }

  /// Which memory the blocks are in, as the driver says. Blocks of a buffer are of one object: it is asked
  /// for the lowest and the highest alone where both are of the host. Those of MPI_BOTTOM may be anywhere.
  void locate(const Side& side, const CudaMemory* engine) {
    CudaDriver* const driver = cuda_driver();
    CudaMemory found;
    bool on_host = driver == nullptr;
    const auto look = [&](std::uintptr_t address) {
      found = driver->memory(reinterpret_cast<const void*>(address), last);
    };
    if (driver != nullptr && side.buffer != nullptr && total > 0) {
      look(low);
      if (!found.on_device && high != low) look(high);
      on_host = !found.on_device;
    }
    for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
      if (bytes[peer] == 0) continue;
      if (!on_host && !found.holds(reinterpret_cast<const void*>(displs[peer]))) look(displs[peer]);
      place.host = place.host && !found.on_device;
      const bool same = !memory || memory->device == found.device;
      place.device = place.device && found.on_device && same && serves(engine, found);
      if (!found.on_device) continue;
      if (!memory) memory = found;
      const auto is_known = [&](const CudaMemory& part) {
        return part.buffer == found.buffer && part.base == found.base;
      };
      if (std::ranges::none_of(parts, is_known)) parts.push_back(found);
    }
    for (const CudaMemory& part : parts) cuda_driver()->settle(part);
    if (found.on_device) last = found;
  }
};

}  // namespace tapa
