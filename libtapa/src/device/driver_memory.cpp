#include "device/driver_memory.hpp"

#include <cuda.h>

#include "device/driver_function.hpp"

namespace tapa::device {

namespace {

/// What this file asks of the driver, which has had all of it since CUDA 4.
struct Driver : DriverFunctions {
  decltype(cuMemGetAddressRange)* range = find<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange", 3020);
  decltype(cuPointerGetAttribute)* attribute =
      find<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute", 4000);
};

const Driver& driver() {
  static const Driver found;
  return found;
}

}  // namespace

std::optional<Segment> allocation_at(std::uint64_t address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (!driver().complete() || driver().range(&base, &bytes, address) != CUDA_SUCCESS) return {};
  return Segment{base, bytes};
}

std::optional<std::uint64_t> allocation_id(std::uint64_t address) {
  if (!driver().complete()) return {};
  unsigned long long id = 0;
  switch (driver().attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)) {
    case CUDA_SUCCESS:
      return id;
    case CUDA_ERROR_INVALID_VALUE:
      return 0;
    default:
      return {};
  }
}

bool is_without_ipc(std::uint64_t address) {
  int capable = 1;
  return driver().complete() &&
         driver().attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) ==
             CUDA_SUCCESS &&
         capable == 0;
}

}  // namespace tapa::device
