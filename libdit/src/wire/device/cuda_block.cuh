/// The row team of row_choice.hpp that is a thread block.
#pragma once

#include <cuda_runtime.h>

#include "wire/device/team.hpp"

namespace dit {
namespace {

class CudaBlock {
 public:
  __device__ explicit CudaBlock(std::byte* room) : room_(room) {}

  template <class Work>
  __device__ __forceinline__ void each(const Work& work) {
    work(threadIdx.x);
    __syncthreads();
  }
  __device__ __forceinline__ std::byte* room() const { return room_; }
  __device__ __forceinline__ static void add(std::uint32_t* word, std::uint32_t value) { atomicAdd(word, value); }

 private:
  std::byte* room_;
};

}  // namespace
}  // namespace dit
