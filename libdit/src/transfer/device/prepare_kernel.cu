#include <algorithm>

#include "dit/dit.h"
#include "transfer/device/prepare_kernel.hpp"

namespace dit {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr std::int64_t kBlocks = 1056;  // for each job: eight on each of a large GPU's multiprocessors

// Arguments of a kernel: 4 KiB until CUDA 12.1, 32764 bytes since.
#if CUDART_VERSION >= 12010
constexpr std::size_t kJobs = 4;
#else
constexpr std::size_t kJobs = 1;
#endif

struct JobList {
  PrepareJob jobs[kJobs];
};

__device__ float over_lanes(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = sum(value, __shfl_xor_sync(0xffffffffU, value, distance));
  return value;
}

/// A warp for each head of a token or, where all heads have one norm, for each token.
template <class Element, bool wide>
__global__ void __launch_bounds__(kThreads) prepare(const __grid_constant__ JobList list) {
  const PrepareJob& job = list.jobs[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const bool by_token = job.norm == Norm::token;
  const std::int64_t tokens = static_cast<std::int64_t>(job.samples) * job.rows;
  const std::int64_t units = by_token ? tokens : tokens * job.heads;
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes; unit < units;
       unit += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const std::int64_t token = by_token ? unit : unit / job.heads;
    const TokenRow<Element, wide> row(job, static_cast<int>(token / job.rows),
                                      static_cast<int>(token % job.rows));
    if (by_token) {
      const float scale =
          scale_of(over_lanes(row.squares(-1, lane)), job.heads * job.head_dim, job.epsilon);
      for (int head = 0; head < job.heads; ++head) row.emit(head, scale, lane);
    } else {
      const int head = static_cast<int>(unit - token * job.heads);
      const float scale = job.norm == Norm::none
                              ? 1.0F
                              : scale_of(over_lanes(row.squares(head, lane)), job.head_dim, job.epsilon);
      row.emit(head, scale, lane);
    }
  }
}

template <class Element>
cudaError_t launch(const std::vector<PrepareJob>& jobs, cudaStream_t stream) {
  const bool wide =
      std::all_of(jobs.begin(), jobs.end(), [](const PrepareJob& job) { return is_wide(job, sizeof(Element)); });
  for (std::size_t done = 0; done < jobs.size(); done += kJobs) {
    JobList list;
    const std::size_t now = std::min(kJobs, jobs.size() - done);
    std::int64_t most = 1;
    for (std::size_t i = 0; i < now; ++i) {
      const PrepareJob& job = list.jobs[i] = jobs[done + i];
      most = std::max(most, static_cast<std::int64_t>(job.samples) * job.rows *
                                (job.norm == Norm::token ? 1 : job.heads));
    }
    const dim3 grid(static_cast<unsigned>(std::min((most + kWarps - 1) / kWarps, kBlocks)),
                    static_cast<unsigned>(now));
    if (wide)
      prepare<Element, true><<<grid, kThreads, 0, stream>>>(list);
    else
      prepare<Element, false><<<grid, kThreads, 0, stream>>>(list);
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_prepare(const std::vector<PrepareJob>& jobs, int element_type, cudaStream_t stream) {
  if (element_type == DIT_ELEMENT_FP32) return launch<float>(jobs, stream);
  if (element_type == DIT_ELEMENT_BF16) return launch<Bf16>(jobs, stream);
  return launch<Fp16>(jobs, stream);
}

}  // namespace dit
