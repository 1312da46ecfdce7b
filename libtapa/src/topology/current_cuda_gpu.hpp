/// @file
/// The GPU that a process uses already.
#pragma once

#include <string>

namespace tapa {

/// Whether this process has the driver's library, without which it uses no GPU. Nothing is loaded for that.
[[nodiscard]] bool has_loaded_cuda(const char* library = "libcuda.so.1");

/// PCI address of the device of this thread's CUDA context; "" where there is none. Nothing is loaded or
/// started for that. `library`: the driver's file, for tests.
[[nodiscard]] std::string current_cuda_gpu(const char* library = "libcuda.so.1");

}  // namespace tapa
