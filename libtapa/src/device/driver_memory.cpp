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

template <class Value>
CUresult ask(CUpointer_attribute attribute, std::uint64_t address, Value& value) {
  return driver().complete() ? driver().attribute(&value, attribute, address) : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

std::optional<Segment> allocation_at(std::uint64_t address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (!driver().complete() || driver().range(&base, &bytes, address) != CUDA_SUCCESS) return {};
  return Segment{base, bytes};
}

std::optional<std::uint64_t> allocation_id(std::uint64_t address) {
  unsigned long long id = 0;
  switch (ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, id)) {
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
  return ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address, capable) == CUDA_SUCCESS &&
         capable == 0;
}

bool has_descriptors(std::uint64_t address) {
  unsigned long long types = 0;
  return ask(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address, types) == CUDA_SUCCESS &&
         (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

}  // namespace tapa::device
