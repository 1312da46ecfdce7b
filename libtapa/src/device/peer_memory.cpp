#include "device/peer_memory.hpp"

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/driver_memory.hpp"

namespace tapa::device {

Offer export_memory(void* memory, std::size_t bytes) {
  Offer made;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  const std::optional<Segment> allocation = allocation_at(address);
  if (!allocation) return made;
  auto* const base = reinterpret_cast<void*>(allocation->begin);
  if (!is_without_ipc(address) && cudaIpcGetMemHandle(&made.how.ipc, base) == cudaSuccess) {
    made.how.by = Export::By::ipc;
    made.how.offset = address - allocation->begin;
    return made;
  }
  (void)cudaGetLastError();
  if (std::optional<VirtualExport> exported = export_virtual(memory, bytes)) {
    made.how.by = Export::By::handles;
    made.how.offset = exported->offset;
    made.handles = std::move(exported->handles);
  }
  return made;
}

Import::Import(const Export& from, const std::vector<Handle>& handles) : offset_(from.offset) {
  if (from.by == Export::By::handles) {
    if (handles.empty()) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "handles of memory did not arrive");
    mapping_.emplace(handles);
    return;
  }
  void* base = nullptr;
  check_cuda(cudaIpcOpenMemHandle(&base, from.ipc, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  base_ = static_cast<std::byte*>(base);
}
Import::~Import() {
  if (base_ != nullptr) (void)cudaIpcCloseMemHandle(base_);
}

}  // namespace tapa::device
