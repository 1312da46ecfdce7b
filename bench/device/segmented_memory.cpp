#include "segmented_memory.hpp"

#include <cuda.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "device/driver_function.hpp"
#include "gpu.hpp"

namespace tapa::bench {

namespace {

/// Calls a function of the driver; `call` names it.
template <class Function, class... Arguments>
void driver(const char* call, Function* function, Arguments... arguments) {
  const CUresult code = function != nullptr ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
  if (code != CUDA_SUCCESS) throw std::runtime_error(std::string(call) + ": error " + std::to_string(code));
}

#define DRIVER(name, version, ...) \
  driver(#name, device::driver_function<decltype(name)>(#name, version), __VA_ARGS__)

int current_device() {
  int device = 0;
  cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

CUmemAllocationProp properties(bool shareable) {
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  made.location.id = current_device();
  if (shareable) made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return made;
}

}  // namespace

SegmentedMemory::SegmentedMemory(std::size_t bytes, bool shareable) : shareable_(shareable) {
  const CUmemAllocationProp of = properties(shareable);
  std::size_t page = 0;
  DRIVER(cuMemGetAllocationGranularity, 10020, &page, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  reserved_ = (bytes + page - 1) / page * page;
  CUdeviceptr base = 0;
  DRIVER(cuMemAddressReserve, 10020, &base, reserved_, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  base_ = base;
  try {
    map_all();
  } catch (...) {
    release();
    throw;
  }
}

void SegmentedMemory::map_all() {
  const CUmemAllocationProp of = properties(shareable_);
  std::size_t page = 0;
  DRIVER(cuMemGetAllocationGranularity, 10020, &page, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  for (std::size_t pages = 1; mapped_ < reserved_; pages = pages % 3 + 1) {
    map(std::min(pages * page, reserved_ - mapped_));
  }
  CUmemAccessDesc access{};
  access.location = of.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  DRIVER(cuMemSetAccess, 10020, CUdeviceptr{base_}, reserved_, &access, std::size_t{1});
}

void SegmentedMemory::map(std::size_t bytes) {
  const CUmemAllocationProp of = properties(shareable_);
  CUmemGenericAllocationHandle allocation = 0;
  DRIVER(cuMemCreate, 10020, &allocation, bytes, &of, 0ULL);
  DRIVER(cuMemMap, 10020, CUdeviceptr{base_} + mapped_, bytes, std::size_t{0}, allocation, 0ULL);
  DRIVER(cuMemRelease, 10020, allocation);
  mapped_ += bytes;
}

void SegmentedMemory::replace() {
  unmap();
  map_all();
}

void SegmentedMemory::unmap() {
  if (mapped_ != 0) DRIVER(cuMemUnmap, 10020, CUdeviceptr{base_}, mapped_);
  mapped_ = 0;
}

void SegmentedMemory::release() {
  unmap();
  DRIVER(cuMemAddressFree, 10020, CUdeviceptr{base_}, reserved_);
}

SegmentedMemory::~SegmentedMemory() {
  try {
    release();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

}  // namespace tapa::bench
