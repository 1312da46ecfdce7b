/// @file
/// A team of the device codecs (wire/device/team.hpp) whose lanes run one after the other, from one each() to
/// the next. What lanes must not do, read in an each() what another one writes in it, is not seen here.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "wire/device/loss_lanes.hpp"
#include "wire/device/row_choice.hpp"
#include "wire/device/segment_codec.hpp"

namespace dit {

class HostWarp {
 public:
  template <class T>
  using Each = std::array<T, kTeamLanes>;

  template <class Work>
  void each(const Work& work) {
    for (std::uint32_t lane = 0; lane < kTeamLanes; ++lane) work(lane);
  }
  template <class Of>
  std::uint32_t most(const Of& of) {
    std::uint32_t most = 0;
    for (std::uint32_t lane = 0; lane < kTeamLanes; ++lane) most = std::max(most, of(lane));
    return most;
  }
  [[nodiscard]] std::byte* room() { return reinterpret_cast<std::byte*>(room_.data()); }
  static void raise(std::uint32_t* word, std::uint32_t value) { *word = std::max(*word, value); }

 private:
  // What a kernel finds in its room: anything.
  std::vector<Unit> room_ =
      std::vector<Unit>(room_of(LaneFormat::fp8, true, JobKind::any).all() / sizeof(Unit),
                        Unit{{0xdeadbeef, 0x7f812345, 0xffc00001, 0x00000001}});
};

/// What launch_codec does, here.
template <CodeWork work, LaneFormat format, bool remembers, JobKind kind>
void run_jobs_of(const CodeJobs& jobs) {
  HostWarp team;
  for (std::uint32_t at = 0; at < jobs.count; ++at) {
    for (std::uint32_t segment = 0; segment < jobs.job[at].segments; ++segment) {
      run_segment<work, format, remembers, kind>(team, jobs.job[at], segment);
    }
  }
}
template <CodeWork work, LaneFormat format, bool remembers>
void run_jobs(const CodeJobs& jobs) {
  constexpr bool kCodes = work == CodeWork::encode || work == CodeWork::decode;
  switch (kind_of(format, jobs)) {
    case JobKind::any:
      return run_jobs_of<work, format, remembers, JobKind::any>(jobs);
    case JobKind::plain_fp16:
      return run_jobs_of<work, format, remembers, JobKind::plain_fp16>(jobs);
    case JobKind::plain_bf16:
      return run_jobs_of<work, format, remembers, JobKind::plain_bf16>(jobs);
    case JobKind::one_row:
      if constexpr (kCodes && format == LaneFormat::fp8) {
        return run_jobs_of<work, format, remembers, JobKind::one_row>(jobs);
      } else {
        return run_jobs_of<work, format, remembers, JobKind::plain_bf16>(jobs);
      }
  }
}

template <LaneFormat format>
void run_jobs(CodeWork work, bool remembers, const CodeJobs& jobs) {
  if (work == CodeWork::encode) {
    return remembers ? run_jobs<CodeWork::encode, format, true>(jobs)
                     : run_jobs<CodeWork::encode, format, false>(jobs);
  }
  if (work == CodeWork::decode) {
    return remembers ? run_jobs<CodeWork::decode, format, true>(jobs)
                     : run_jobs<CodeWork::decode, format, false>(jobs);
  }
  return work == CodeWork::recall ? run_jobs<CodeWork::recall, LaneFormat::fp32, true>(jobs)
                                  : run_jobs<CodeWork::extrapolate, LaneFormat::fp32, true>(jobs);
}

inline void run_on_host(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs) {
  switch (format) {
    case LaneFormat::fp32:
      return run_jobs<LaneFormat::fp32>(work, remembers, jobs);
    case LaneFormat::bf16:
      return run_jobs<LaneFormat::bf16>(work, remembers, jobs);
    case LaneFormat::fp16:
      return run_jobs<LaneFormat::fp16>(work, remembers, jobs);
    case LaneFormat::fp8:
      return run_jobs<LaneFormat::fp8>(work, remembers, jobs);
    case LaneFormat::int8:
      return run_jobs<LaneFormat::int8>(work, remembers, jobs);
    case LaneFormat::int4:
      return run_jobs<LaneFormat::int4>(work, remembers, jobs);
    case LaneFormat::int2:
      return run_jobs<LaneFormat::int2>(work, remembers, jobs);
    case LaneFormat::int1:
      return run_jobs<LaneFormat::int1>(work, remembers, jobs);
  }
}

/// A row team (row_choice.hpp) whose lanes run one after the other.
class HostBlock {
 public:
  template <class Work>
  void each(const Work& work) {
    for (std::uint32_t lane = 0; lane < kRowLanes; ++lane) work(lane);
  }
  [[nodiscard]] std::byte* room() { return reinterpret_cast<std::byte*>(room_.data()); }
  static void add(std::uint32_t* word, std::uint32_t value) { *word += value; }

 private:
  std::vector<Unit> room_ =
      std::vector<Unit>(std::max(kRowRoom, kLossRoom) / sizeof(Unit), Unit{{0xdeadbeef, 1, 2, 3}});
};

/// What launch_losses does, here.
inline void run_on_host(const LossJobs& losses) {
  HostWarp warp;
  HostBlock block;
  for (std::uint32_t at = 0; at < losses.jobs.count; ++at) {
    const CodeJob& job = losses.jobs.job[at];
    BlockLoss* const segments = losses.segments + job.first_segment;
    for (std::uint32_t segment = 0; segment < job.segments; ++segment) {
      loss_of_segment(warp, job, segment, segments + segment);
    }
    loss_of_block(block, segments, job.segments, losses.told + at);
  }
}

template <RowWork work>
void run_rows_on_host(const RowChoice& choice) {
  HostBlock team;
  for (std::uint32_t index = 0; index < row_teams(work, choice); ++index) run_rows<work>(team, choice, index);
}

/// What launch_rows does, here.
inline void run_on_host(RowWork work, const RowChoices& choices) {
  for (std::uint32_t i = 0; i < choices.count; ++i) {
    const RowChoice& choice = choices.choice[i];
    if (work == RowWork::measure) run_rows_on_host<RowWork::measure>(choice);
    if (work == RowWork::compare) run_rows_on_host<RowWork::compare>(choice);
    if (work == RowWork::keep) run_rows_on_host<RowWork::keep>(choice);
    if (work == RowWork::read) run_rows_on_host<RowWork::read>(choice);
    if (work == RowWork::choose) run_rows_on_host<RowWork::choose>(choice);
    if (work == RowWork::write) run_rows_on_host<RowWork::write>(choice);
  }
}

}  // namespace dit
