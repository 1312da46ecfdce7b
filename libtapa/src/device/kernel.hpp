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

/// The parts of a call in which copy engines or the caller's kernels store: the handshake before; beside copy
/// engines, what they leave, which is the rank's own block (they would take longer for it than for all
/// others) and the ends of the others, and on another stream, at the same time, the wait for what comes; the
/// handshake after the caller's kernels.
[[nodiscard]] cudaError_t launch_begin(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_beside_copies(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_join(Call& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_end(Call& call, cudaStream_t stream);

}  // namespace tapa::device
