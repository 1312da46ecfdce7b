#include <algorithm>

#include "dit/dit.h"
#include "transfer/device/prepare_kernel.hpp"
#include "transfer/device/prepare_team.hpp"

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
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
       unit < units; unit += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const std::int64_t token = by_token ? unit : unit / job.heads;
    const TokenRow<Element, wide> row(job, static_cast<int>(token / job.rows),
                                      static_cast<int>(token % job.rows));
    if (by_token) {
      const float scale = scale_of(over_lanes(row.squares(-1, lane)), job.heads * job.head_dim, job.epsilon);
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

/// Threads of a warp side by side.
template <int lanes>
class WarpTeam {
 public:
  __device__ WarpTeam()
      : lane_(static_cast<int>(threadIdx.x) % lanes),
        mask_(0xffffffffU >> (kLanes - lanes) << (threadIdx.x % kLanes / lanes * lanes)) {}
  [[nodiscard]] __device__ int lane() const { return lane_; }
  [[nodiscard]] __device__ float across(float value, int distance) const {
    return __shfl_xor_sync(mask_, value, distance);
  }

 private:
  int lane_;
  unsigned mask_;
};

template <class Element, int lanes>
__global__ void __launch_bounds__(kThreads) prepare_by_teams(const __grid_constant__ JobList list) {
  const PrepareJob& job = list.jobs[blockIdx.y];
  const WarpTeam<lanes> team;
  constexpr int teams = kThreads / lanes;
  const int units = job.samples * job.rows * units_of_token(job);
  for (int unit = static_cast<int>(blockIdx.x) * teams + static_cast<int>(threadIdx.x) / lanes; unit < units;
       unit += static_cast<int>(gridDim.x) * teams)
    TeamUnit<Element, lanes, WarpTeam<lanes>>(job, team, unit).run();
}

/// How the jobs of a launch are carried out.
struct Carrier {
  int lanes;  ///< of a team, which has a head's row; 0: a warp for each
  bool wide;
};

Carrier carrier_of(const std::vector<PrepareJob>& jobs, std::size_t element_bytes) {
  const int lanes = team_lanes(jobs.front(), element_bytes);
  const auto all = [&](const auto& holds) { return std::all_of(jobs.begin(), jobs.end(), holds); };
  if (lanes > 0 && all([&](const PrepareJob& job) { return team_lanes(job, element_bytes) == lanes; }))
    return {lanes, true};
  return {0, all([&](const PrepareJob& job) { return is_wide(job, element_bytes); })};
}

template <class Element>
cudaError_t launch_list(const JobList& list, std::size_t jobs, const Carrier& carrier, cudaStream_t stream) {
  std::int64_t most = 1;
  for (std::size_t i = 0; i < jobs; ++i) {
    const PrepareJob& job = list.jobs[i];
    const std::int64_t tokens = static_cast<std::int64_t>(job.samples) * job.rows;
    const int of_token = carrier.lanes > 0 ? units_of_token(job) : job.norm == Norm::token ? 1 : job.heads;
    most = std::max(most, tokens * of_token);
  }
  const int units = kThreads / (carrier.lanes > 0 ? carrier.lanes : kLanes);  // of a thread block at once
  const dim3 grid(static_cast<unsigned>(std::min((most + units - 1) / units, kBlocks)),
                  static_cast<unsigned>(jobs));
  constexpr int whole = static_cast<int>(128 * sizeof(Element) / 16);
  if (carrier.lanes == whole)
    prepare_by_teams<Element, whole><<<grid, kThreads, 0, stream>>>(list);
  else if (carrier.lanes == whole / 2)
    prepare_by_teams<Element, whole / 2><<<grid, kThreads, 0, stream>>>(list);
  else if (carrier.lanes == whole / 4)
    prepare_by_teams<Element, whole / 4><<<grid, kThreads, 0, stream>>>(list);
  else if (carrier.wide)
    prepare<Element, true><<<grid, kThreads, 0, stream>>>(list);
  else
    prepare<Element, false><<<grid, kThreads, 0, stream>>>(list);
  return cudaGetLastError();
}

template <class Element>
cudaError_t launch(const std::vector<PrepareJob>& jobs, cudaStream_t stream) {
  if (jobs.empty()) return cudaSuccess;
  const Carrier carrier = carrier_of(jobs, sizeof(Element));
  for (std::size_t done = 0; done < jobs.size(); done += kJobs) {
    JobList list;
    const std::size_t now = std::min(kJobs, jobs.size() - done);
    std::copy_n(jobs.begin() + static_cast<std::ptrdiff_t>(done), now, list.jobs);
    const cudaError_t code = launch_list<Element>(list, now, carrier, stream);
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
