/// Jobs of prepare.hpp on a device.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "transfer/device/prepare.hpp"

namespace dit {

/// Puts the jobs, all of one dit_element_type, on a stream of the current device: one launch where they fit
/// into its arguments.
[[nodiscard]] cudaError_t launch_prepare(const std::vector<PrepareJob>& jobs, int element_type,
                                         cudaStream_t stream);

}  // namespace dit
