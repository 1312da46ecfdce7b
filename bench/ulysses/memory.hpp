/// @file
/// Device memory of CUDA or, for NCCL's symmetric windows, of NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>

#include "gpu.hpp"

namespace tapa::bench {

/// Gives `bytes` bytes of the current device, freed with the last copy of what it returns.
using Allocate = std::function<std::shared_ptr<char>(std::size_t bytes)>;

inline std::shared_ptr<char> cuda_memory(std::size_t bytes) {
  void* memory = nullptr;
  cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  return {static_cast<char*>(memory), [](char* freed) { (void)cudaFree(freed); }};
}

/// ncclMemAlloc of a library that is loaded; throws where there is none.
inline Allocate nccl_memory(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  const auto allocate = reinterpret_cast<int (*)(void**, std::size_t)>(dlsym(handle, "ncclMemAlloc"));
  const auto release = reinterpret_cast<int (*)(void*)>(dlsym(handle, "ncclMemFree"));
  if (allocate == nullptr || release == nullptr) throw std::runtime_error("NCCL has no ncclMemAlloc");
  return [allocate, release](std::size_t bytes) -> std::shared_ptr<char> {
    void* memory = nullptr;
    if (allocate(&memory, bytes) != 0) throw std::runtime_error("ncclMemAlloc failed");
    return {static_cast<char*>(memory), [release](char* freed) { (void)release(freed); }};
  };
}

}  // namespace tapa::bench
