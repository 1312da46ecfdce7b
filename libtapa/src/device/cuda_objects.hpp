/// @file
/// CUDA's calls with errors as exceptions, and owners of what they give.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tapa::device {

/// Throws DeviceError when a call failed. `call`: what was asked, for the message.
void check_cuda(cudaError_t code, const char* call);

/// The same for the first launch of a call: what says that the stream cannot take any now (it belongs to
/// another device, or a capture forbids it) is the caller's error, and nothing has happened.
void check_first_launch(cudaError_t code, const char* call);

/// In which capture a stream is; 0: in none. Throws DeviceError where the stream cannot be used now.
[[nodiscard]] unsigned long long capture_of(cudaStream_t stream);

/// While it lives this thread may allocate and free while another one captures a stream.
class BesideCaptures {
 public:
  BesideCaptures();
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Memory of the current device, cleared.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* get() const { return memory_; }
  /// Gives the memory up; it stays allocated until the process ends.
  void abandon() { memory_ = nullptr; }

 private:
  std::byte* memory_ = nullptr;
};

/// Lets all devices use pages of the host, under the host's addresses. Throws DeviceError.
void register_pages(void* pages, std::size_t bytes);

/// Memory of the host, cleared, that devices can write. It is still there when the program has reset the
/// device, for threads of the library's own that go on, and for programs that ask for errors then.
class LastingMemory {
 public:
  explicit LastingMemory(std::size_t bytes);
  ~LastingMemory();
  LastingMemory(const LastingMemory&) = delete;
  LastingMemory& operator=(const LastingMemory&) = delete;

  [[nodiscard]] void* get() const { return memory_.get(); }

 private:
  struct Pages {
    std::size_t bytes;
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Pages> memory_;
};

/// A stream of the library's own, which waits for no other. Also while another thread captures one.
class PrivateStream {
 public:
  PrivateStream();
  ~PrivateStream();
  PrivateStream(const PrivateStream&) = delete;
  PrivateStream& operator=(const PrivateStream&) = delete;

  /// Copies from host to device and waits for it.
  void copy(void* to, const void* from, std::size_t bytes);
  /// From device to host.
  void read(void* to, const void* from, std::size_t bytes);
  void clear(void* memory, std::size_t bytes);
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait();

 private:
  cudaStream_t stream_ = nullptr;
};

/// Streams beside a caller's: they begin where it is, and it goes on when they are done. Also while it is
/// captured.
class SideStreams {
 public:
  explicit SideStreams(int count);
  ~SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  [[nodiscard]] cudaStream_t at(int index) const { return streams_[static_cast<std::size_t>(index)]; }
  /// Throws DeviceError when they are in a capture of another stream, in which they stay until its end.
  void require_free_for(cudaStream_t stream) const;
  void fork(cudaStream_t from);
  void join(cudaStream_t into);

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> done_;
  cudaEvent_t begin_ = nullptr;
};

/// A stream beside a caller's on which things are done one after the other while the caller's goes on, until
/// it waits for one of them. Also while it is captured. Its kernels come before the caller's.
class WireStream {
 public:
  /// `slots`: marks that can be waited for.
  explicit WireStream(int slots);
  ~WireStream();
  WireStream(const WireStream&) = delete;
  WireStream& operator=(const WireStream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  /// As that of SideStreams.
  void require_free_for(cudaStream_t stream) const;
  /// What comes next here waits for what is on `stream` now.
  void follow(cudaStream_t stream);
  void mark(int slot);
  /// Records another's event here.
  void record(cudaEvent_t event);
  /// What comes next on `stream` waits for the last mark of this slot, and for all before it.
  void wait(int slot, cudaStream_t stream);

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  std::vector<cudaEvent_t> marks_;
};

}  // namespace tapa::device
