#include "device/virtual_memory.hpp"

#include <cuda.h>

#include <numeric>
#include <string>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/driver_function.hpp"
#include "device/driver_memory.hpp"
#include "device/segments.hpp"

namespace tapa::device {

namespace {

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// What this file asks of the driver.
class Driver : public DriverFunctions {
 public:
  /// The one of this process; null when a function is missing.
  static const Driver* find_all() {
    static const Driver driver;
    return driver.complete() ? &driver : nullptr;
  }
  /// Throws DeviceError instead.
  static const Driver& get() {
    const Driver* const driver = find_all();
    if (driver != nullptr) return *driver;
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "this driver has no calls for virtual memory");
  }

  decltype(cuMemRetainAllocationHandle)* retain =
      find<decltype(cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle", 11000);
  decltype(cuMemExportToShareableHandle)* share =
      find<decltype(cuMemExportToShareableHandle)>("cuMemExportToShareableHandle", 10020);
  decltype(cuMemImportFromShareableHandle)* import =
      find<decltype(cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle", 10020);
  decltype(cuMemRelease)* release = find<decltype(cuMemRelease)>("cuMemRelease", 10020);
  decltype(cuMemAddressReserve)* reserve = find<decltype(cuMemAddressReserve)>("cuMemAddressReserve", 10020);
  decltype(cuMemAddressFree)* free = find<decltype(cuMemAddressFree)>("cuMemAddressFree", 10020);
  decltype(cuMemMap)* map = find<decltype(cuMemMap)>("cuMemMap", 10020);
  decltype(cuMemUnmap)* unmap = find<decltype(cuMemUnmap)>("cuMemUnmap", 10020);
  decltype(cuMemSetAccess)* set_access = find<decltype(cuMemSetAccess)>("cuMemSetAccess", 10020);
};

void check_driver(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  const int kind = code == CUDA_ERROR_OUT_OF_MEMORY ? TAPA_DEVICE_ERR_MEMORY : TAPA_DEVICE_ERR_CUDA;
  throw DeviceError(kind, std::string(call) + ": error " + std::to_string(code));
}

/// A handle of the allocation that is mapped at an address; nothing when there is none, or none to be shared.
std::optional<Handle> share(const Driver& driver, const Segment& segment) {
  CUmemGenericAllocationHandle allocation = 0;
  if (!has_descriptors(segment.begin)) return {};
  if (driver.retain(&allocation, reinterpret_cast<void*>(segment.begin)) != CUDA_SUCCESS) return {};
  int file = -1;
  const CUresult shared = driver.share(&file, allocation, kHandleType, 0);
  (void)driver.release(allocation);
  if (shared != CUDA_SUCCESS) return {};
  return Handle{Descriptor(file), segment.bytes};
}

}  // namespace

std::optional<VirtualExport> export_virtual(void* memory, std::size_t bytes) {
  const Driver* const driver = Driver::find_all();
  if (driver == nullptr) return {};
  const auto begin = reinterpret_cast<std::uint64_t>(memory);
  const std::vector<Segment> segments = segments_of(begin, bytes, allocation_at);
  if (segments.empty()) return {};
  VirtualExport made;
  made.offset = begin - segments.front().begin;
  for (const Segment& segment : segments) {
    std::optional<Handle> handle = share(*driver, segment);
    if (!handle) return {};
    made.handles.push_back(std::move(*handle));
  }
  return made;
}

VirtualMapping::VirtualMapping(const std::vector<Handle>& handles) {
  const Driver& driver = Driver::get();
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  reserved_ = std::accumulate(handles.begin(), handles.end(), std::size_t{0},
                              [](std::size_t sum, const Handle& each) { return sum + each.bytes; });
  CUdeviceptr base = 0;
  check_driver(driver.reserve(&base, reserved_, 0, 0, 0), "cuMemAddressReserve");
  base_ = base;
  try {
    for (const Handle& handle : handles) map(handle);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(driver.set_access(base_, reserved_, &access, 1), "cuMemSetAccess");
  } catch (...) {
    release();
    throw;
  }
}

void VirtualMapping::map(const Handle& handle) {
  const Driver& driver = Driver::get();
  CUmemGenericAllocationHandle allocation = 0;
  // The interface takes the descriptor's number in place of a pointer.
  void* const file = reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle.file.get()));
  check_driver(driver.import(&allocation, file, kHandleType), "cuMemImportFromShareableHandle");
  const CUresult mapped = driver.map(base_ + mapped_, handle.bytes, 0, allocation, 0);
  (void)driver.release(allocation);  // what is mapped keeps it
  check_driver(mapped, "cuMemMap");
  mapped_ += handle.bytes;
}

void VirtualMapping::release() noexcept {
  if (base_ == 0) return;
  const Driver* const driver = Driver::find_all();  // it reserved the addresses
  if (mapped_ != 0) (void)driver->unmap(base_, mapped_);
  (void)driver->free(std::exchange(base_, 0), reserved_);
}

VirtualMapping::~VirtualMapping() {
  release();
}

}  // namespace tapa::device
