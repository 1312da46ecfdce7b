/// @file
/// The team of exchange.hpp that is a thread block.
///
/// Orders: data of other lanes is behind a flag by the block's barrier and the flag's release at system scope,
/// which is cumulative. Words that peers write are read with acquire at system scope; data that peers wrote is
/// read past the first-level cache.
#pragma once

#include <cuda_runtime.h>

#include "device/call.hpp"

namespace tapa::device {

class CudaTeam {
 public:
  using Wide = uint4;

  __device__ int index() const { return static_cast<int>(blockIdx.x); }
  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int lanes() const { return static_cast<int>(blockDim.x); }
  __device__ bool any(bool mine) { return __syncthreads_or(mine ? 1 : 0) != 0; }

  template <class Unit>
  __device__ Unit load(const std::byte* from) {
    return __ldcg(reinterpret_cast<const Unit*>(from));
  }
  template <class Unit>
  __device__ void store(std::byte* to, const Unit& unit) {
    *reinterpret_cast<Unit*>(to) = unit;
  }

  __device__ static Word relaxed(const Word* word) {
    Word value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static Word acquire(const Word* word) {
    Word value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static void post(Word* word, Word value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ static void signal(Word* word, Word value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }

  __device__ static Line load_line(const Line* line) {
    Line got;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(got.low), "=r"(got.low_flag), "=r"(got.high), "=r"(got.high_flag)
                 : "l"(line)
                 : "memory");
    return got;
  }
  __device__ static void store_line(Line* line, std::uint64_t data, std::uint32_t flag) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(line),
                 "r"(static_cast<std::uint32_t>(data)), "r"(flag), "r"(static_cast<std::uint32_t>(data >> 32)),
                 "r"(flag)
                 : "memory");
  }

  __device__ bool looks(std::uint32_t spins) {
    constexpr std::uint32_t kNowAndThen = 128;
    if (spins % kNowAndThen != 0) return false;
    if (spins == kNowAndThen) {
      began_ = nanoseconds();
      late_ = false;
    }
    return true;
  }
  __device__ bool gives_up(Word timeout) {
    const bool was_late = late_;
    late_ = timeout != 0 && nanoseconds() - began_ > timeout;
    return was_late && late_;
  }
  __device__ static bool aborted(const LocalState& local) {
    return *static_cast<const volatile std::uint32_t*>(&local.aborted) != 0;
  }
  __device__ static void note(Word* word, Word value) {
    *static_cast<volatile Word*>(word) = value;
    __threadfence_system();
  }
  __device__ static void lost(LocalState& local, Word* failure, Word sequence) {
    *static_cast<volatile Word*>(failure) = sequence;
    __threadfence_system();
    *static_cast<volatile std::uint32_t*>(&local.aborted) = 1;
  }

  __device__ void leave(LocalState& local, Word sequence, int teams) {
    __syncthreads();
    if (lane() != 0) return;
    __threadfence();
    if (atomicAdd(&local.finished, 1U) + 1 != static_cast<std::uint32_t>(teams)) return;
    local.finished = 0;
    local.sequence = sequence + 1;
  }

 private:
  __device__ static Word nanoseconds() {
    Word now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }

  Word began_ = 0;
  bool late_ = false;
};

}  // namespace tapa::device
