/// The kernels of the device codecs.
#pragma once

#include <cuda_runtime_api.h>

#include "wire/device/code_job.hpp"
#include "wire/device/loss_lanes.hpp"
#include "wire/device/row_choice.hpp"

namespace dit {

/// After what is in the stream; does not wait.
[[nodiscard]] cudaError_t launch_codec(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                                       cudaStream_t stream);

[[nodiscard]] cudaError_t launch_rows(RowWork work, const RowChoices& choices, cudaStream_t stream);

[[nodiscard]] cudaError_t launch_losses(const LossJobs& losses, cudaStream_t stream);

/// Have kernels loaded on the current device, which else happens when one is first used and may wait for it.
[[nodiscard]] cudaError_t load_codecs();
[[nodiscard]] cudaError_t load_row_kernels();
[[nodiscard]] cudaError_t load_loss_kernels();

}  // namespace dit
