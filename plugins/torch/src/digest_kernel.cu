#include <algorithm>
#include <cstdint>

#include "digest_kernel.hpp"
#include "digest_word.hpp"

namespace dit::operators {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kBatch = 4;              // loads of a thread that are under way at once
constexpr int kJobs = 32;              // of a launch: they are its argument
constexpr std::size_t kBlocks = 2112;  // for each job: sixteen on each of a large GPU's multiprocessors

struct JobList {
  DigestJob jobs[kJobs];
};

/// Bytes behind the last pair of words; zeros fill up the last word.
__device__ std::uint64_t of_the_rest(const DigestJob& job) {
  std::uint64_t sum = 0;
  for (std::size_t word = job.bytes / 16 * 2; word * 8 < job.bytes; ++word) {
    std::uint64_t x = 0;
    for (std::size_t at = word * 8; at < job.bytes && at < word * 8 + 8; ++at)
      x |= std::uint64_t{static_cast<const std::uint8_t*>(job.data)[at]} << (at % 8 * 8);
    sum += mixed(x, word + 1);
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    add_digests(const __grid_constant__ JobList list, unsigned long long* numbers) {
  const DigestJob& job = list.jobs[blockIdx.y];
  const auto* const pairs = static_cast<const ulonglong2*>(job.data);
  const std::size_t count = job.bytes / sizeof(ulonglong2);
  std::uint64_t sum = blockIdx.x == 0 && threadIdx.x == 0 ? of_the_rest(job) : 0;
  for (std::size_t begin = std::size_t{blockIdx.x} * kThreads * kBatch + threadIdx.x; begin < count;
       begin += std::size_t{gridDim.x} * kThreads * kBatch) {
    ulonglong2 held[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (begin + std::size_t{kThreads} * b < count)
        held[b] = __ldg(pairs + begin + std::size_t{kThreads} * b);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::size_t pair = begin + std::size_t{kThreads} * b;
      if (pair < count) sum += mixed(held[b].x, 2 * pair + 1) + mixed(held[b].y, 2 * pair + 2);
    }
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  if (threadIdx.x % kLanes == 0) atomicAdd(numbers + blockIdx.y, static_cast<unsigned long long>(sum));
}

}  // namespace

cudaError_t start_digests(const std::vector<DigestJob>& jobs, unsigned long long* numbers,
                          cudaStream_t stream) {
  for (std::size_t done = 0; done < jobs.size(); done += kJobs) {
    JobList list{};
    const std::size_t now = std::min<std::size_t>(kJobs, jobs.size() - done);
    std::copy_n(jobs.data() + done, now, list.jobs);
    std::size_t longest = 0;
    for (std::size_t at = 0; at < now; ++at) longest = std::max(longest, list.jobs[at].bytes);
    const std::size_t of_a_block = kThreads * kBatch * sizeof(ulonglong2);
    const std::size_t blocks = std::clamp<std::size_t>((longest + of_a_block - 1) / of_a_block, 1, kBlocks);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(now));
    add_digests<<<grid, kThreads, 0, stream>>>(list, numbers + done);
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace dit::operators
