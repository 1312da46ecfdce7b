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

void check_first_launch(cudaError_t code, const char* call) {
  const bool captured =
      code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorStreamCaptureWrongThread;
  if (!captured && code != cudaErrorInvalidResourceHandle) return check_cuda(code, call);
  (void)cudaGetLastError();
  throw DeviceError(TAPA_DEVICE_ERR_ARG, std::string(call) + " on this stream: " + cudaGetErrorString(code));
}

BesideCaptures::BesideCaptures() {
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
}
BesideCaptures::~BesideCaptures() {
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
}

unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check_first_launch(cudaStreamGetCaptureInfo(stream, &status, &id), "a call");
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

namespace {

/// Throws DeviceError when a stream of the library's is in a capture of another stream than the caller's.
void require_same_capture(cudaStream_t ours, cudaStream_t callers) {
  const unsigned long long capture = capture_of(callers);  // also throws where it cannot be used
  const unsigned long long held = capture_of(ours);
  if (held == 0 || held == capture) return;
  throw DeviceError(TAPA_DEVICE_ERR_ARG,
                    "another stream is captured, with calls of this communicator: expected the end of that "
                    "capture first");
}

}  // namespace

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

void register_pages(void* pages, std::size_t bytes) {
  check_cuda(cudaHostRegister(pages, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
             "cudaHostRegister");
  void* on_device = nullptr;
  const cudaError_t found = cudaHostGetDevicePointer(&on_device, pages, 0);
  if (found == cudaSuccess && on_device == pages) return;
  (void)cudaHostUnregister(pages);
  check_cuda(found, "cudaHostGetDevicePointer");
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "memory of the host has other addresses on the device");
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
  register_pages(pages, bytes);
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
void SideStreams::require_free_for(cudaStream_t stream) const {
  require_same_capture(streams_.front(), stream);
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
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
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
void WireStream::require_free_for(cudaStream_t stream) const {
  require_same_capture(stream_, stream);
}
void WireStream::follow(cudaStream_t stream) {
  check_cuda(cudaEventRecord(begin_, stream), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, begin_, 0), "cudaStreamWaitEvent");
}
void WireStream::mark(int slot) {
  check_cuda(cudaEventRecord(marks_[static_cast<std::size_t>(slot)], stream_), "cudaEventRecord");
}
void WireStream::record(cudaEvent_t event) {
  check_cuda(cudaEventRecord(event, stream_), "cudaEventRecord");
}
void WireStream::wait(int slot, cudaStream_t stream) {
  check_cuda(cudaStreamWaitEvent(stream, marks_[static_cast<std::size_t>(slot)], 0), "cudaStreamWaitEvent");
}

}  // namespace tapa::device
