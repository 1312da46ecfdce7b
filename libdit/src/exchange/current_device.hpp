/// @file
/// A device of CUDA that is current while something is done on it, for transfers and for exchange plugins.
#pragma once

#include <cuda_runtime_api.h>

namespace dit {

/// Makes a device this thread's current one while it lives. `check(code, function)` throws when a call of
/// CUDA has failed.
template <auto check>
class CurrentDeviceOf {
 public:
  explicit CurrentDeviceOf(int device) : device_(device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device_) check(cudaSetDevice(device_), "cudaSetDevice");
  }
  ~CurrentDeviceOf() {
    if (before_ != device_) (void)cudaSetDevice(before_);
  }
  CurrentDeviceOf(const CurrentDeviceOf&) = delete;
  CurrentDeviceOf& operator=(const CurrentDeviceOf&) = delete;

 private:
  int before_ = -1;
  int device_;
};

}  // namespace dit
