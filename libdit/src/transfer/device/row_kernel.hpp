/// Copies of rows between a tensor and a packed buffer on a device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "wire/row_copy.hpp"

namespace dit {

/// Puts the copies on a stream of the current device: tensor -> buffer.
[[nodiscard]] cudaError_t gather_rows(const std::vector<RowCopy>& copies, const std::byte* tensor,
                                      std::byte* buffer, cudaStream_t stream);
/// Buffer -> tensor.
[[nodiscard]] cudaError_t scatter_rows(const std::vector<RowCopy>& copies, const std::byte* buffer,
                                       std::byte* tensor, cudaStream_t stream);

}  // namespace dit
