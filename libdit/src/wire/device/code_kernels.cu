#include "wire/device/code_kernels.hpp"

namespace dit {
namespace {

CodeKernel kernel_of(CodeWork work, LaneFormat format, bool remembers, JobKind kind) {
  const bool codes = work == CodeWork::encode || work == CodeWork::decode;
  switch (kind) {
    case JobKind::any:
      return any_kernel(work, format, remembers);
    case JobKind::plain_fp16:
      return fp16_kernel(work, format, remembers);
    case JobKind::plain_bf16:
      return bf16_kernel(work, format, remembers);
    default:
      return codes ? one_row_kernel(work, remembers) : bf16_kernel(work, format, remembers);
  }
}

}  // namespace

cudaError_t launch_codec(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                         cudaStream_t stream) {
  if (jobs.segments == 0) {
    return cudaSuccess;
  }
  const std::uint32_t blocks = (jobs.segments + kCodeWarps - 1) / kCodeWarps;
  const CodeKernel kernel = kernel_of(work, format, remembers, kind_of(format, jobs));
  kernel.function<<<blocks, kCodeWarps * kTeamLanes, kCodeWarps * kernel.room, stream>>>(jobs);
  return cudaGetLastError();
}

cudaError_t load_codecs() {
  cudaFuncAttributes attributes{};
  for (int format = 0; format < kLaneFormats; ++format) {
    for (const CodeWork work :
         {CodeWork::encode, CodeWork::decode, CodeWork::recall, CodeWork::extrapolate}) {
      for (const bool remembers : {false, true}) {
        for (int kind = 0; kind < kJobKinds; ++kind) {
          const CodeKernel kernel =
              kernel_of(work, static_cast<LaneFormat>(format), remembers, static_cast<JobKind>(kind));
          const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel.function);
          if (code != cudaSuccess) {
            return code;
          }
        }
      }
    }
  }
  return cudaSuccess;
}

}  // namespace dit
