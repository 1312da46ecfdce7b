#include "topology/current_cuda_gpu.hpp"

#include <dlfcn.h>

#include <array>

#include "topology/gpu_links.hpp"

namespace tapa {

bool has_loaded_cuda(const char* library) {
  void* const driver = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  dlclose(driver);  // it stays, as others have loaded it
  return true;
}

std::string current_cuda_gpu(const char* library) {
  void* const driver = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return {};
  // As cuda.h declares them, since CUDA 2.0 and 4.1.
  auto* const device_of_context = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuCtxGetDevice"));
  auto* const address = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  int device = -1;
  std::array<char, 32> pci{};
  const bool known = device_of_context != nullptr && address != nullptr && device_of_context(&device) == 0 &&
                     address(pci.data(), static_cast<int>(pci.size()), device) == 0;
  dlclose(driver);  // it stays, as others have loaded it
  return known ? short_pci(pci.data()) : std::string();
}

}  // namespace tapa
