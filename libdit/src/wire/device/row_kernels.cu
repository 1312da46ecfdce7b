#include <algorithm>

#include "wire/device/code_kernels.hpp"
#include "wire/device/cuda_block.cuh"

namespace dit {
namespace {

template <RowWork work>
__global__ void __launch_bounds__(kRowLanes) choose_rows(const __grid_constant__ RowChoices choices) {
  __shared__ Unit room[kRowRoom / sizeof(Unit)];
  const RowChoice& choice = choices.choice[blockIdx.y];
  CudaBlock team(reinterpret_cast<std::byte*>(room));
  run_rows<work>(team, choice, blockIdx.x);
}

}  // namespace

cudaError_t load_row_kernels() {
  cudaFuncAttributes attributes{};
  for (void (*kernel)(RowChoices) :
       {choose_rows<RowWork::measure>, choose_rows<RowWork::compare>, choose_rows<RowWork::read>,
        choose_rows<RowWork::choose>, choose_rows<RowWork::write>, choose_rows<RowWork::keep>}) {
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel);
    if (code != cudaSuccess) {
      return code;
    }
  }
  return cudaSuccess;
}

cudaError_t launch_rows(RowWork work, const RowChoices& choices, cudaStream_t stream) {
  std::uint32_t teams = 1;
  for (std::uint32_t i = 0; i < choices.count; ++i) {
    teams = std::max(teams, row_teams(work, choices.choice[i]));
  }
  const dim3 grid(teams, choices.count);
  switch (work) {
    case RowWork::measure:
      choose_rows<RowWork::measure><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
    case RowWork::compare:
      choose_rows<RowWork::compare><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
    case RowWork::keep:
      choose_rows<RowWork::keep><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
    case RowWork::read:
      choose_rows<RowWork::read><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
    case RowWork::choose:
      choose_rows<RowWork::choose><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
    case RowWork::write:
      choose_rows<RowWork::write><<<grid, kRowLanes, 0, stream>>>(choices);
      break;
  }
  return cudaGetLastError();
}

}  // namespace dit
