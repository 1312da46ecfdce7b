/// How a word of a tensor goes into its digest: on hosts and on devices, and as python/dit_torch/digest.py
/// does.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define DIT_HOST_DEVICE __host__ __device__
#else
#define DIT_HOST_DEVICE
#endif

namespace dit::operators {

/// A sum of these is the digest: in whatever order they are added. Each bit of a word changes about half of
/// the bits of its summand (as in SplitMix64): with less, sums of several changes are often the same.
/// @param place of the word in the tensor, from 1 on: the same words in another order have another digest
DIT_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t word, std::uint64_t place) {
  std::uint64_t x = place * 0x9E3779B97F4A7C15U + word;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace dit::operators
