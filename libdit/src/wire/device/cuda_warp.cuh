/// The team of team.hpp that is a warp.
#pragma once

#include <cuda_runtime.h>

#include "wire/device/team.hpp"

namespace dit {
namespace {

class CudaWarp {
 public:
  template <class T>
  class Each {
   public:
    __device__ __forceinline__ T& operator[](std::uint32_t /*lane*/) { return own_; }

   private:
    T own_;
  };

  __device__ explicit CudaWarp(std::byte* room) : room_(room) {}

  template <class Work>
  __device__ __forceinline__ void each(const Work& work) {
    work(threadIdx.x % kTeamLanes);
    __syncwarp();
  }
  template <class Of>
  __device__ __forceinline__ std::uint32_t most(const Of& of) {
    return __reduce_max_sync(0xffffffffU, of(threadIdx.x % kTeamLanes));
  }
  __device__ __forceinline__ std::byte* room() const { return room_; }
  __device__ __forceinline__ static void raise(std::uint32_t* word, std::uint32_t value) {
    atomicMax(word, value);
  }

 private:
  std::byte* room_;
};

}  // namespace
}  // namespace dit
