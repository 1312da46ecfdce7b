/// @file
/// Functions of CUDA's driver, asked for by name: libraries are not linked with it, so that they load
/// without.
#pragma once

#include <cuda_runtime_api.h>

namespace tapa::device {

/// The driver's function, in the form that it had in `version` of CUDA (1000 * major + 10 * minor); null when
/// this driver has none. `Function` is the type of what cuda.h declares.
template <class Function>
[[nodiscard]] Function* driver_function(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
  (void)version;
  const cudaError_t code = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  if (code != cudaSuccess) (void)cudaGetLastError();
  const bool there = code == cudaSuccess && found == cudaDriverEntryPointSuccess;
  return there ? reinterpret_cast<Function*>(function) : nullptr;
}

/// What a part of the library asks of the driver: all of it is there, or it is of no use. The functions are
/// members of a class that derives from this one.
class DriverFunctions {
 public:
  [[nodiscard]] bool complete() const { return complete_; }

 protected:
  template <class Function>
  [[nodiscard]] Function* find(const char* name, unsigned version) {
    auto* const found = driver_function<Function>(name, version);
    complete_ = complete_ && found != nullptr;
    return found;
  }

 private:
  bool complete_ = true;
};

}  // namespace tapa::device
