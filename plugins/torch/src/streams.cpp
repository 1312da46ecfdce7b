#include "streams.hpp"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "dit/dit.h"

#ifdef DIT_TORCH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace dit::operators {
namespace {

// Newer guards tell a stream's handle; their interface says so by a function of this name.
template <typename Guard>
void* handle_of(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.getStreamNativeHandle(stream); }) {
    return guard.getStreamNativeHandle(stream);
  } else {
    // c10::cuda::CUDAStream holds nothing but the c10::Stream, and this function of it reads nothing else.
    using Function = void* (*)(const c10::Stream*);
    static const auto function = [] {
      void* const library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
      return library == nullptr
                 ? nullptr
                 : reinterpret_cast<Function>(dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv"));
    }();
    if (function == nullptr)
      throw std::runtime_error(
          "libc10_cuda.so has no c10::cuda::CUDAStream::stream: expected torch with CUDA");
    return function(&stream);
  }
}

#ifdef DIT_TORCH_CUDA
void require(cudaError_t code, const char* function) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(function) + ": " + cudaGetErrorString(code));
}
#endif

}  // namespace

void* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return handle_of(guard, guard.getStream(device));
}

void require_cuda() {
#ifdef DIT_TORCH_CUDA
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    throw std::invalid_argument("memory_kind = 1 (CUDA): expected 0 (host), as this torch has no CUDA");
#else
  throw std::invalid_argument("memory_kind = 1 (CUDA): expected 0 (host), as this build has no CUDA");
#endif
}

#ifdef DIT_TORCH_CUDA

unsigned long long capture_of(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  require(cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &capture),
          "cudaStreamGetCaptureInfo");
  return status == cudaStreamCaptureStatusNone ? 0 : capture;
}

CurrentDevice::CurrentDevice(int memory_kind, int device) : device_(device) {
  if (memory_kind == DIT_MEMORY_HOST) {
    before_ = device_;
    return;
  }
  require(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device_) require(cudaSetDevice(device_), "cudaSetDevice");
}

CurrentDevice::~CurrentDevice() {
  if (before_ != device_) (void)cudaSetDevice(before_);
}

DeviceMemory::DeviceMemory(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
  memory_.reset(static_cast<std::byte*>(memory));
}

void DeviceMemory::Free::operator()(std::byte* memory) const {
  (void)cudaFree(memory);
}

SideStream::SideStream() {
  int least = 0;
  int greatest = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
          "cudaStreamCreateWithPriority");
  stream_ = stream;
}

SideStream::~SideStream() {
  (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

void synchronize(void* stream) {
  require(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cudaStreamSynchronize");
}

#else  // require_cuda comes before all of these

unsigned long long capture_of(void*) {
  return 0;
}
CurrentDevice::CurrentDevice(int, int device) : before_(device), device_(device) {}
CurrentDevice::~CurrentDevice() = default;
DeviceMemory::DeviceMemory(std::size_t) {
  require_cuda();
}
void DeviceMemory::Free::operator()(std::byte*) const {}
SideStream::SideStream() {
  require_cuda();
}
SideStream::~SideStream() = default;
void synchronize(void*) {}

#endif

}  // namespace dit::operators
