#include <algorithm>

#include "pattern.hpp"

namespace tapa::bench {

namespace {

constexpr unsigned kThreads = 256;

__device__ std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33;
}

__device__ std::uint8_t byte_of(std::uint64_t seed, std::size_t at) {
  return static_cast<std::uint8_t>(mixed(seed + at / 8) >> (8 * (at % 8)));
}

__device__ std::uint64_t seed_of(std::uint64_t seed, const Round* round) {
  return mixed(seed * 2654435761U + (round == nullptr ? 0 : *round) * 40503U + 1);
}

__global__ void fill_kernel(std::uint8_t* memory, std::size_t bytes, std::uint64_t seed, const Round* round) {
  const std::uint64_t own = seed_of(seed, round);
  for (std::size_t at = blockIdx.x * kThreads + threadIdx.x; at < bytes; at += std::size_t{gridDim.x} * kThreads) {
    memory[at] = byte_of(own, at);
  }
}

__global__ void count_wrong_kernel(const std::uint8_t* memory, std::size_t bytes, std::uint64_t seed,
                                   const Round* round, unsigned long long* wrong) {
  const std::uint64_t own = seed_of(seed, round);
  unsigned long long mine = 0;
  for (std::size_t at = blockIdx.x * kThreads + threadIdx.x; at < bytes; at += std::size_t{gridDim.x} * kThreads) {
    mine += memory[at] != byte_of(own, at) ? 1 : 0;
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

__global__ void count_others_kernel(const std::uint8_t* memory, std::size_t bytes, std::uint8_t value,
                                    unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (std::size_t at = blockIdx.x * kThreads + threadIdx.x; at < bytes; at += std::size_t{gridDim.x} * kThreads) {
    mine += memory[at] != value ? 1 : 0;
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

/// Calls `move(address of byte k in the block, k)` for each byte.
template <class Move>
__device__ void for_bytes(std::uint8_t* base, const TAPA_Device_block& block, const Move& move) {
  const std::size_t plane = block.rows * block.row_bytes;
  for (std::size_t at = blockIdx.x * kThreads + threadIdx.x; at < plane * block.planes;
       at += std::size_t{gridDim.x} * kThreads) {
    move(base + block.offset + at / plane * block.plane_stride + at % plane / block.row_bytes * block.row_stride +
             at % block.row_bytes,
         at);
  }
}
__global__ void gather_rows_kernel(std::uint8_t* to, std::uint8_t* base, TAPA_Device_block block) {
  for_bytes(base, block, [&](const std::uint8_t* byte, std::size_t at) { to[at] = *byte; });
}
__global__ void scatter_rows_kernel(std::uint8_t* base, TAPA_Device_block block, const std::uint8_t* from) {
  for_bytes(base, block, [&](std::uint8_t* byte, std::size_t at) { *byte = from[at]; });
}
__global__ void set_rows_kernel(std::uint8_t* base, TAPA_Device_block block, std::uint8_t value) {
  for_bytes(base, block, [&](std::uint8_t* byte, std::size_t) { *byte = value; });
}

__global__ void next_round_kernel(Round* round) {
  ++*round;
}

__global__ void delay_kernel(std::uint64_t nanoseconds) {
  std::uint64_t began = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - began < nanoseconds);
}

unsigned blocks_for(std::size_t bytes) {
  return static_cast<unsigned>(std::clamp<std::size_t>(bytes / (kThreads * 8), 1, 1024));
}
std::size_t bytes_of(const TAPA_Device_block& block) {
  return block.row_bytes * block.rows * block.planes;
}

}  // namespace

void fill(void* memory, std::size_t bytes, std::uint64_t seed, const Round* round, cudaStream_t stream) {
  if (bytes == 0) return;
  fill_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(static_cast<std::uint8_t*>(memory), bytes, seed, round);
}
void count_wrong(const void* memory, std::size_t bytes, std::uint64_t seed, const Round* round,
                 unsigned long long* wrong, cudaStream_t stream) {
  if (bytes == 0) return;
  count_wrong_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(static_cast<const std::uint8_t*>(memory), bytes,
                                                                 seed, round, wrong);
}
void count_others(const void* memory, std::size_t bytes, std::uint8_t value, unsigned long long* wrong,
                  cudaStream_t stream) {
  if (bytes == 0) return;
  count_others_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(static_cast<const std::uint8_t*>(memory), bytes,
                                                                  value, wrong);
}
void gather_rows(void* to, const void* base, const TAPA_Device_block& block, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(block);
  if (bytes == 0) return;
  gather_rows_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(
      static_cast<std::uint8_t*>(to), static_cast<std::uint8_t*>(const_cast<void*>(base)), block);
}
void scatter_rows(void* base, const TAPA_Device_block& block, const void* from, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(block);
  if (bytes == 0) return;
  scatter_rows_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(static_cast<std::uint8_t*>(base), block,
                                                                  static_cast<const std::uint8_t*>(from));
}
void set_rows(void* base, const TAPA_Device_block& block, std::uint8_t value, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(block);
  if (bytes == 0) return;
  set_rows_kernel<<<blocks_for(bytes), kThreads, 0, stream>>>(static_cast<std::uint8_t*>(base), block, value);
}
void next_round(Round* round, cudaStream_t stream) {
  next_round_kernel<<<1, 1, 0, stream>>>(round);
}
void delay(std::uint64_t nanoseconds, cudaStream_t stream) {
  if (nanoseconds != 0) delay_kernel<<<1, 1, 0, stream>>>(nanoseconds);
}

}  // namespace tapa::bench
