/// @file
/// The all-to-all as a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "device/call.hpp"

namespace tapa::device {

/// Loads the kernels on the current device. CUDA would load them at the first call, and may wait for the
/// device to do so, while kernels of another communicator on it wait for other ranks.
[[nodiscard]] cudaError_t load_kernels();

/// Puts a call on a stream of the current device. `call.channels` is set here.
[[nodiscard]] cudaError_t launch(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch(StridedCall& call, cudaStream_t stream);

/// The parts of a call by copy engines: the handshake before and after, and the rank's own block, which a
/// copy engine would take longer for than for all others.
[[nodiscard]] cudaError_t launch_begin(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_own(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_end(Call& call, cudaStream_t stream);

}  // namespace tapa::device
