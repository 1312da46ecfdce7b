/// The kernel of the device codecs, and the table of those for one kind of jobs: a source for each kind, so
/// that they are compiled side by side.
#pragma once

#include "wire/device/code_kernels.hpp"
#include "wire/device/cuda_warp.cuh"
#include "wire/device/segment_codec.hpp"

namespace dit {
namespace {

/// How many blocks are to fit on a multiprocessor, which bounds their registers: where that was faster.
constexpr int least_blocks(LaneFormat format, bool remembers, JobKind kind) {
  if (kind == JobKind::any || has_scales(format)) {
    return 0;  // as many as come
  }
  return remembers ? 6 : format == LaneFormat::fp8 ? 12 : 0;
}

template <CodeWork work, LaneFormat format, bool remembers, JobKind kind>
__global__ void __launch_bounds__(kCodeWarps* kTeamLanes, least_blocks(format, remembers, kind))
    code_segments(const __grid_constant__ CodeJobs jobs) {
  extern __shared__ Unit rooms[];
  const std::uint32_t warp = threadIdx.x / kTeamLanes;
  const std::uint32_t segment = blockIdx.x * kCodeWarps + warp;
  if (segment >= jobs.segments) {
    return;
  }
  const CodeJob& job = jobs.job[job_at(jobs, segment)];
  CudaWarp team(reinterpret_cast<std::byte*>(rooms) + warp * room_of(format, remembers, kind).all());
  run_segment<work, format, remembers, kind>(team, job, segment - job.first_segment);
}

template <CodeWork work, LaneFormat format, bool remembers, JobKind kind>
constexpr CodeKernel code_kernel() {
  return {code_segments<work, format, remembers, kind>, room_of(format, remembers, kind).all()};
}

template <CodeWork work, bool remembers, JobKind kind>
CodeKernel kernel_of(LaneFormat format) {
  constexpr CodeKernel kKernels[kLaneFormats] = {code_kernel<work, LaneFormat::fp32, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::bf16, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::fp16, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::fp8, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::int8, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::int4, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::int2, remembers, kind>(),
                                                 code_kernel<work, LaneFormat::int1, remembers, kind>()};
  return kKernels[static_cast<int>(format)];
}

template <JobKind kind>
CodeKernel kernel_of(CodeWork work, LaneFormat format, bool remembers) {
  constexpr LaneFormat kAnyFormat = LaneFormat::fp32;  // recalling and extrapolating is the same of all
  switch (work) {
    case CodeWork::encode:
      return remembers ? kernel_of<CodeWork::encode, true, kind>(format)
                       : kernel_of<CodeWork::encode, false, kind>(format);
    case CodeWork::decode:
      return remembers ? kernel_of<CodeWork::decode, true, kind>(format)
                       : kernel_of<CodeWork::decode, false, kind>(format);
    case CodeWork::recall:
      return code_kernel<CodeWork::recall, kAnyFormat, true, kind>();
    default:
      return code_kernel<CodeWork::extrapolate, kAnyFormat, true, kind>();
  }
}

}  // namespace
}  // namespace dit
