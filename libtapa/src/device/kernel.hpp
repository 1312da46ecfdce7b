/// @file
/// The all-to-all as a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "device/call.hpp"

namespace tapa::device {

/// Puts a call on a stream of the current device. `call.channels` is set here.
[[nodiscard]] cudaError_t launch(Call& call, cudaStream_t stream);

}  // namespace tapa::device
