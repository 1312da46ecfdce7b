/// @file
/// Which device a thread's calls of CUDA are for.
#pragma once

#include <cuda_runtime_api.h>

namespace tapa::device {

/// Makes a device current while it lives, by a context of the driver's: cudaSetDevice() back to a device that
/// the thread has never used would make a context there, of some hundred megabytes. So a thread that has used
/// no device yet has none afterwards.
class CurrentDevice {
 public:
  /// Throws DeviceError.
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_;
  bool pushed_ = false;
};

/// Multiprocessors of the current device. Throws DeviceError.
[[nodiscard]] int multiprocessors_here();

/// The device that a stream is of, -1 when that is not known. With a device current.
[[nodiscard]] int device_of_stream(cudaStream_t stream);

}  // namespace tapa::device
