#include "wire/device/code_kernels.hpp"
#include "wire/device/cuda_block.cuh"
#include "wire/device/cuda_warp.cuh"
#include "wire/device/loss_lanes.hpp"

namespace dit {
namespace {

constexpr std::uint32_t kWarps = 4;  // of a block

__global__ void __launch_bounds__(kWarps* kTeamLanes) sum_segments(const __grid_constant__ LossJobs losses) {
  __shared__ Unit rooms[kWarps * kSegmentLossRoom / sizeof(Unit)];
  const std::uint32_t warp = threadIdx.x / kTeamLanes;
  const std::uint32_t segment = blockIdx.x * kWarps + warp;
  const CodeJobs& jobs = losses.jobs;
  if (segment >= jobs.segments) {
    return;
  }
  const CodeJob& job = jobs.job[job_at(jobs, segment)];
  CudaWarp team(reinterpret_cast<std::byte*>(rooms) + warp * kSegmentLossRoom);
  loss_of_segment(team, job, segment - job.first_segment, losses.segments + segment);
}

__global__ void __launch_bounds__(kLossLanes) sum_blocks(const __grid_constant__ LossJobs losses) {
  __shared__ Unit room[kLossRoom / sizeof(Unit)];
  const CodeJob& job = losses.jobs.job[blockIdx.x];
  CudaBlock team(reinterpret_cast<std::byte*>(room));
  loss_of_block(team, losses.segments + job.first_segment, job.segments, losses.told + blockIdx.x);
}

}  // namespace

cudaError_t launch_losses(const LossJobs& losses, cudaStream_t stream) {
  if (losses.jobs.count == 0) {
    return cudaSuccess;
  }
  sum_segments<<<(losses.jobs.segments + kWarps - 1) / kWarps, kWarps * kTeamLanes, 0, stream>>>(losses);
  sum_blocks<<<losses.jobs.count, kLossLanes, 0, stream>>>(losses);
  return cudaGetLastError();
}

cudaError_t load_loss_kernels() {
  cudaFuncAttributes attributes{};
  const cudaError_t code = cudaFuncGetAttributes(&attributes, sum_segments);
  return code != cudaSuccess ? code : cudaFuncGetAttributes(&attributes, sum_blocks);
}

}  // namespace dit
