/// PyTorch's streams and CUDA's memory, without PyTorch's CUDA libraries: what is linked is the same for a
/// torch with CUDA and for one without.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <memory>

namespace dit::operators {

/// The stream that torch puts a device's work on now, as the runtime's handle.
[[nodiscard]] void* current_stream(c10::Device device);
/// Throws std::invalid_argument when this build, or this torch, has no CUDA.
void require_cuda();
/// In which capture a stream is; 0: it runs.
[[nodiscard]] unsigned long long capture_of(void* stream);

/// Makes a device current while it lives, for the runtime that is linked in; nothing for host memory.
class CurrentDevice {
 public:
  CurrentDevice(int memory_kind, int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
  int device_;
};

/// Memory that other processes can map: of cudaMalloc, whatever torch's allocator does. The device is
/// current.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes);  ///< throws std::runtime_error
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// A stream beside torch's.
class SideStream {
 public:
  SideStream();  ///< on the current device; throws std::runtime_error
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  [[nodiscard]] void* handle() const { return stream_; }

 private:
  void* stream_ = nullptr;
};

/// Waits until the device has done what is in a stream.
void synchronize(void* stream);

}  // namespace dit::operators
