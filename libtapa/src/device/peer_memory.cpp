#include "device/peer_memory.hpp"

#include <cuda.h>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/driver_function.hpp"

namespace tapa::device {

namespace {

/// Where the allocation begins that `memory` lies in; null when the driver does not say.
std::byte* allocation_of(void* memory) {
  auto* const range = driver_function<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange", 3020);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (range == nullptr || range(&base, &bytes, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS) {
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(base);
}

/// Whether IPC is out of the question, by what the driver says of the memory: asked, so that no call fails
/// where nothing is wrong, which tools such as compute-sanitizer would report.
bool is_without_ipc(const void* memory) {
  auto* const attribute = driver_function<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute", 4000);
  int capable = 1;
  if (attribute == nullptr) return false;
  const CUresult code = attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                  reinterpret_cast<CUdeviceptr>(memory));
  return code == CUDA_SUCCESS && capable == 0;
}

}  // namespace

Offer export_memory(void* memory, std::size_t bytes) {
  Offer made;
  std::byte* const base = allocation_of(memory);
  if (base == nullptr) return made;
  if (!is_without_ipc(memory) && cudaIpcGetMemHandle(&made.how.ipc, base) == cudaSuccess) {
    made.how.by = Export::By::ipc;
    made.how.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - base);
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
