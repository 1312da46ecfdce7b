/// @file
/// Bytes that show where they come from, written and checked on the device; and delays. All on a stream, so
/// that CUDA graphs record them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tapa/device.h"

namespace tapa::bench {

/// A number in device memory that patterns of a recorded graph depend on; null counts as 0.
using Round = std::uint64_t;

/// Fills memory with the pattern of `seed` and `*round`.
void fill(void* memory, std::size_t bytes, std::uint64_t seed, const Round* round, cudaStream_t stream);
/// Adds the number of bytes that differ from it to `*wrong` (device memory).
void count_wrong(const void* memory, std::size_t bytes, std::uint64_t seed, const Round* round,
                 unsigned long long* wrong, cudaStream_t stream);
/// The same for bytes that should all be `value`.
void count_others(const void* memory, std::size_t bytes, std::uint8_t value, unsigned long long* wrong,
                  cudaStream_t stream);
/// The bytes of a strided block at `base` to memory where they lie together; back; and all of them set to
/// `value`. One byte after the other, for checks.
void gather_rows(void* to, const void* base, const TAPA_Device_block& block, cudaStream_t stream);
void scatter_rows(void* base, const TAPA_Device_block& block, const void* from, cudaStream_t stream);
void set_rows(void* base, const TAPA_Device_block& block, std::uint8_t value, cudaStream_t stream);
void next_round(Round* round, cudaStream_t stream);
/// Keeps a stream busy.
void delay(std::uint64_t nanoseconds, cudaStream_t stream);

}  // namespace tapa::bench
