#include "topology/current_cuda_gpu.hpp"

#include <dlfcn.h>

#include <array>
#include <memory>

#include "topology/gpu_links.hpp"

namespace tapa {

namespace {

struct Closed {
  void operator()(void* library) const { dlclose(library); }  // it stays, as others have loaded it
};
using Library = std::unique_ptr<void, Closed>;

/// A library that this process has; null when nobody has loaded it.
Library loaded(const char* library) {
  return Library(dlopen(library, RTLD_LAZY | RTLD_NOLOAD));
}

}  // namespace

bool has_loaded_cuda(const char* library) {
  return loaded(library) != nullptr;
}

std::string current_cuda_gpu(const char* library) {
  const Library driver = loaded(library);
  if (driver == nullptr) return {};
  // As cuda.h declares them, since CUDA 2.0 and 4.1.
  auto* const device_of_context = reinterpret_cast<int (*)(int*)>(dlsym(driver.get(), "cuCtxGetDevice"));
  auto* const address =
      reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver.get(), "cuDeviceGetPCIBusId"));
  int device = -1;
  std::array<char, 32> pci{};
  const bool known = device_of_context != nullptr && address != nullptr && device_of_context(&device) == 0 &&
                     address(pci.data(), static_cast<int>(pci.size()), device) == 0;
  return known ? short_pci(pci.data()) : std::string();
}

}  // namespace tapa
