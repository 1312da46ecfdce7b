#include "comm/device_blocks.hpp"

#include <algorithm>
#include <limits>

#include "run/device_memory.hpp"

namespace tapa {

namespace {

/// Where the blocks of a side are, as the driver says. Blocks of a buffer are of one object: it is asked for
/// the lowest and the highest alone where both are of the host. Those of MPI_BOTTOM may be anywhere.
class Places {
 public:
  Places(const Side& side, const DeviceBlocks& blocks) : driver_(cuda_driver()), blocks_(blocks) {
    if (driver_ == nullptr || side.buffer == nullptr || blocks.total == 0) return;
    look(blocks.low);
    if (!memory_.on_device && blocks.high != blocks.low) look(blocks.high);
    on_host_ = !memory_.on_device;
  }
  /// That of the block that begins at an address.
  const CudaMemory& at(std::uintptr_t first) {
    const bool known = on_host_ || (looked_ && memory_.holds(reinterpret_cast<const void*>(first)));
    if (driver_ != nullptr && !known) look(first);
    return memory_;
  }

 private:
  void look(std::uintptr_t address) {
    memory_ = driver_->memory(reinterpret_cast<const void*>(address), blocks_.last);
    looked_ = true;
  }
  CudaDriver* driver_;
  const DeviceBlocks& blocks_;
  CudaMemory memory_;
  bool looked_ = false;
  bool on_host_ = false;
};

bool serves(const CudaMemory* engine, const CudaMemory& memory) {
  if (engine == nullptr) return true;
  const bool same_context =
      memory.context == engine->context || memory.context == nullptr || engine->context == nullptr;
  return memory.device == engine->device && same_context;
}

}  // namespace

void DeviceBlocks::describe(const Arguments& a, const Side& side, int ranks, const CudaMemory* engine) {
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

/// Which memory the blocks are in.
void DeviceBlocks::locate(const Side& side, const CudaMemory* engine) {
  Places places(side, *this);
  CudaMemory found;
  for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
    if (bytes[peer] == 0) continue;
    found = places.at(displs[peer]);
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

bool DeviceBlocks::in_row() const {
  for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
    if (bytes[peer] != bytes[0] || (bytes[0] > 0 && displs[peer] != peer * bytes[0])) return false;
  }
  return true;
}

}  // namespace tapa
