#include "device/cuda_launch.cuh"
#include "device/cuda_team.cuh"
#include "device/exchange.hpp"
#include "device/kernel.hpp"

namespace tapa::device {

namespace {

constexpr int kLanes = 512;
constexpr int kHandshakeLanes = 32;

template <class BlockType>
__global__ void __launch_bounds__(kLanes, 1) alltoall(const __grid_constant__ CallOf<BlockType> call) {
  CudaTeam team;
  run_team(team, call);
}

template <Part part>
__global__ void __launch_bounds__(kHandshakeLanes, 1) handshake(const __grid_constant__ Call call) {
  CudaTeam team;
  run_team(team, call, part);
}

__global__ void __launch_bounds__(kLanes, 1) beside_copies(const __grid_constant__ Call call) {
  CudaTeam team;
  run_team(team, call, Part::copies);
}

template <Part part>
cudaError_t launch_handshake(Call& call, cudaStream_t stream) {
  call.channels = 1;
  return launch_kernel(handshake<part>, static_cast<unsigned>(call.region.size), kHandshakeLanes, call,
                       stream);
}

template <class BlockType>
cudaError_t launch_all(CallOf<BlockType>& call, cudaStream_t stream) {
  call.channels = channels_of_call(call);
  const auto teams = static_cast<unsigned>(call.channels * call.region.size);
  return launch_kernel(alltoall<BlockType>, teams, kLanes, call, stream);
}

}  // namespace

cudaError_t load_kernels() {
  cudaFuncAttributes attributes{};
  for (void (*kernel)(Call) : {alltoall<Block>, handshake<Part::begin>, handshake<Part::join>,
                               handshake<Part::end>, beside_copies}) {
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel);
    if (code != cudaSuccess) return code;
  }
  return cudaFuncGetAttributes(&attributes, alltoall<StridedBlock>);
}

cudaError_t launch(Call& call, cudaStream_t stream) {
  return launch_all(call, stream);
}
cudaError_t launch(StridedCall& call, cudaStream_t stream) {
  return launch_all(call, stream);
}

cudaError_t launch_begin(Call& call, cudaStream_t stream) {
  return launch_handshake<Part::begin>(call, stream);
}
cudaError_t launch_join(Call& call, cudaStream_t stream) {
  return launch_handshake<Part::join>(call, stream);
}
cudaError_t launch_end(Call& call, cudaStream_t stream) {
  return launch_handshake<Part::end>(call, stream);
}
cudaError_t launch_beside_copies(Call& call, cudaStream_t stream) {
  call.channels = channels_beside_copies(call.region);
  const auto teams = static_cast<unsigned>(call.channels * call.region.size);
  return launch_kernel(beside_copies, teams, kLanes, call, stream);
}

}  // namespace tapa::device
