#include "wire/device/code_kernels.hpp"

#include "wire/device/cuda_warp.cuh"
#include "wire/device/segment_codec.hpp"

namespace dit {
namespace {

constexpr std::uint32_t kWarps = 4;  // of a block

using Kernel = void (*)(CodeJobs);

/// Recalling and extrapolating is the same of all formats.
constexpr LaneFormat kAnyFormat = LaneFormat::fp32;

template <CodeWork work, LaneFormat format, bool remembers>
__global__ void __launch_bounds__(kWarps* kTeamLanes)
    code_segments(const __grid_constant__ CodeJobs jobs) {
  extern __shared__ Unit rooms[];
  const std::uint32_t warp = threadIdx.x / kTeamLanes;
  const std::uint32_t segment = blockIdx.x * kWarps + warp;
  if (segment >= jobs.segments) {
    return;
  }
  const CodeJob& job = jobs.job[job_at(jobs, segment)];
  CudaWarp team(reinterpret_cast<std::byte*>(rooms) + warp * room_of(format, remembers));
  run_segment<work, format, remembers>(team, job, segment - job.first_segment);
}

template <CodeWork work, bool remembers>
Kernel kernel_of(LaneFormat format) {
  constexpr Kernel kKernels[kLaneFormats] = {
      code_segments<work, LaneFormat::fp32, remembers>, code_segments<work, LaneFormat::bf16, remembers>,
      code_segments<work, LaneFormat::fp16, remembers>, code_segments<work, LaneFormat::fp8, remembers>,
      code_segments<work, LaneFormat::int8, remembers>, code_segments<work, LaneFormat::int4, remembers>,
      code_segments<work, LaneFormat::int2, remembers>, code_segments<work, LaneFormat::int1, remembers>};
  return kKernels[static_cast<int>(format)];
}

Kernel kernel_of(CodeWork work, LaneFormat format, bool remembers) {
  switch (work) {
    case CodeWork::encode:
      return remembers ? kernel_of<CodeWork::encode, true>(format) : kernel_of<CodeWork::encode, false>(format);
    case CodeWork::decode:
      return remembers ? kernel_of<CodeWork::decode, true>(format) : kernel_of<CodeWork::decode, false>(format);
    case CodeWork::recall:
      return code_segments<CodeWork::recall, kAnyFormat, true>;
    default:
      return code_segments<CodeWork::extrapolate, kAnyFormat, true>;
  }
}

}  // namespace

cudaError_t launch_codec(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                         cudaStream_t stream) {
  if (jobs.segments == 0) {
    return cudaSuccess;
  }
  const std::uint32_t blocks = (jobs.segments + kWarps - 1) / kWarps;
  kernel_of(work, format, remembers)<<<blocks, kWarps * kTeamLanes, kWarps * room_of(format, remembers),
                                            stream>>>(jobs);
  return cudaGetLastError();
}

cudaError_t load_codecs() {
  cudaFuncAttributes attributes{};
  for (int format = 0; format < kLaneFormats; ++format) {
    for (const CodeWork work : {CodeWork::encode, CodeWork::decode, CodeWork::recall, CodeWork::extrapolate}) {
      for (const bool remembers : {false, true}) {
        const cudaError_t code =
            cudaFuncGetAttributes(&attributes, kernel_of(work, static_cast<LaneFormat>(format), remembers));
        if (code != cudaSuccess) {
          return code;
        }
      }
    }
  }
  return cudaSuccess;
}

}  // namespace dit
