/// Digests of device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace dit::operators {

struct DigestJob {
  const void* data;  ///< a multiple of 16
  std::size_t bytes;
};

/// Adds the digest of each job to its number, which is 0, on a stream of the current device.
[[nodiscard]] cudaError_t start_digests(const std::vector<DigestJob>& jobs, unsigned long long* numbers,
                                        cudaStream_t stream);

}  // namespace dit::operators
