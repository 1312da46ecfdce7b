/// The kernels of the device codecs.
#pragma once

#include <cuda_runtime_api.h>

#include "wire/device/code_job.hpp"

namespace dit {

enum class CodeDirection : std::uint8_t { encode, decode };

/// Blocks of one launch: all of one format, all with a memory or all without.
inline constexpr std::uint32_t kMostJobs = 8;
struct CodeJobs {
  std::uint32_t count = 0;
  std::uint32_t segments = 0;  ///< of all
  CodeJob job[kMostJobs];
};
static_assert(sizeof(CodeJobs) <= 4000, "what is given to kernels");

/// After what is in the stream; does not wait.
[[nodiscard]] cudaError_t launch_codec(CodeDirection direction, LaneFormat format, bool remembers,
                                       const CodeJobs& jobs, cudaStream_t stream);

/// Has the kernels loaded, which else happens when one is first used and may wait for the device.
[[nodiscard]] cudaError_t load_codecs();

}  // namespace dit
