#include "device/kernel.hpp"

#include "device/cuda_team.cuh"
#include "device/exchange.hpp"

namespace tapa::device {

namespace {

constexpr int kLanes = 512;

__global__ void __launch_bounds__(kLanes, 1) alltoall(const __grid_constant__ Call call) {
  CudaTeam team;
  run_team(team, call);
}

}  // namespace

cudaError_t launch(Call& call, cudaStream_t stream) {
  call.channels = channels_of_call(call);
  const auto teams = static_cast<unsigned>(call.channels * call.region.size);
  alltoall<<<teams, kLanes, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace tapa::device
