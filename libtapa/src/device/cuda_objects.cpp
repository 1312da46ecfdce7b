#include "device/cuda_objects.hpp"

#include <sys/mman.h>

#include <string>

#include "device/device_error.hpp"

namespace tapa::device {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // else the program's next check finds it
  const bool missing = code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
                       code == cudaErrorStubLibrary || code == cudaErrorSystemDriverMismatch;
  const int kind = missing                             ? TAPA_DEVICE_ERR_UNSUPPORTED
                   : code == cudaErrorMemoryAllocation ? TAPA_DEVICE_ERR_MEMORY
                                                       : TAPA_DEVICE_ERR_CUDA;
  throw DeviceError(kind, std::string(call) + ": " + cudaGetErrorString(code));
}

CurrentDevice::CurrentDevice(int device) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ == device) return;
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  changed_ = true;
}
CurrentDevice::~CurrentDevice() {
  if (changed_) (void)cudaSetDevice(before_);
}

DeviceMemory::DeviceMemory(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  memory_ = static_cast<std::byte*>(memory);
  const cudaError_t cleared = cudaMemset(memory, 0, bytes);
  const cudaError_t done = cleared == cudaSuccess ? cudaStreamSynchronize(nullptr) : cleared;
  if (done != cudaSuccess) {
    (void)cudaFree(memory);
    check_cuda(done, "cudaMemset");
  }
}
DeviceMemory::~DeviceMemory() {
  if (memory_ != nullptr) (void)cudaFree(memory_);
}

PinnedMemory::PinnedMemory(std::size_t bytes) {
  check_cuda(cudaHostAlloc(&memory_, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  for (std::size_t at = 0; at < bytes; ++at) static_cast<std::byte*>(memory_)[at] = std::byte{0};
}
PinnedMemory::~PinnedMemory() {
  (void)cudaFreeHost(memory_);
}

void LastingMemory::Pages::operator()(void* memory) const {
  (void)munmap(memory, bytes);
}

LastingMemory::LastingMemory(std::size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw DeviceError(TAPA_DEVICE_ERR_MEMORY, "no memory of " + std::to_string(bytes) + " bytes");
  memory_ = {pages, Pages{bytes}};
  (void)madvise(pages, bytes, MADV_DONTFORK);  // a child's copy could make the parent's pages others
  check_cuda(cudaHostRegister(pages, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
             "cudaHostRegister");
  void* on_device = nullptr;
  const cudaError_t found = cudaHostGetDevicePointer(&on_device, pages, 0);
  if (found == cudaSuccess && on_device == pages) return;
  (void)cudaHostUnregister(pages);
  check_cuda(found, "cudaHostGetDevicePointer");
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "memory of the host has other addresses on the device");
}
LastingMemory::~LastingMemory() {
  (void)cudaHostUnregister(memory_.get());
}

PrivateStream::PrivateStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}
PrivateStream::~PrivateStream() {
  (void)cudaStreamDestroy(stream_);
}
void PrivateStream::copy(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}
void PrivateStream::read(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}
void PrivateStream::clear(void* memory, std::size_t bytes) {
  check_cuda(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void PrivateStream::wait() {
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

SideStreams::SideStreams(int count) {
  check_cuda(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  for (int index = 0; index < count; ++index) {
    check_cuda(cudaStreamCreateWithFlags(&streams_.emplace_back(nullptr), cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    check_cuda(cudaEventCreateWithFlags(&done_.emplace_back(nullptr), cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
}
SideStreams::~SideStreams() {
  for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
  for (cudaEvent_t event : done_) (void)cudaEventDestroy(event);
  (void)cudaEventDestroy(begin_);
}
void SideStreams::fork(cudaStream_t from) {
  check_cuda(cudaEventRecord(begin_, from), "cudaEventRecord");
  for (cudaStream_t stream : streams_)
    check_cuda(cudaStreamWaitEvent(stream, begin_, 0), "cudaStreamWaitEvent");
}
void SideStreams::join(cudaStream_t into) {
  for (std::size_t index = 0; index < streams_.size(); ++index) {
    check_cuda(cudaEventRecord(done_[index], streams_[index]), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(into, done_[index], 0), "cudaStreamWaitEvent");
  }
}

WireStream::WireStream(int slots) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  for (int slot = 0; slot < slots; ++slot) {
    check_cuda(cudaEventCreateWithFlags(&marks_.emplace_back(nullptr), cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
}
WireStream::~WireStream() {
  for (cudaEvent_t mark : marks_) (void)cudaEventDestroy(mark);
  (void)cudaEventDestroy(begin_);
  (void)cudaStreamDestroy(stream_);
}
void WireStream::follow(cudaStream_t stream) {
  check_cuda(cudaEventRecord(begin_, stream), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, begin_, 0), "cudaStreamWaitEvent");
}
void WireStream::mark(int slot) {
  check_cuda(cudaEventRecord(marks_[static_cast<std::size_t>(slot)], stream_), "cudaEventRecord");
}
void WireStream::wait(int slot, cudaStream_t stream) {
  check_cuda(cudaStreamWaitEvent(stream, marks_[static_cast<std::size_t>(slot)], 0), "cudaStreamWaitEvent");
}

}  // namespace tapa::device
