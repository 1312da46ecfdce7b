/// @file
/// How kernels are launched. The error is the launch's own: cudaGetLastError() may give that of an earlier
/// call, behind which this one runs.
#pragma once

#include <cuda_runtime.h>

namespace tapa::device {

/// A kernel of one argument, on the current device.
template <class Argument>
[[nodiscard]] cudaError_t launch_kernel(void (*kernel)(Argument), unsigned blocks, unsigned lanes,
                                        const Argument& argument, cudaStream_t stream) {
  void* arguments[] = {const_cast<Argument*>(&argument)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(lanes), arguments, 0,
                          stream);
}

}  // namespace tapa::device
