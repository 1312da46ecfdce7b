/// The sums of wire/loss_sums.hpp by teams: of each segment first, then of each block's segments.
#pragma once

#include "wire/device/lane_memory.hpp"
#include "wire/loss_sums.hpp"

namespace dit {

/// Blocks of one launch. All rows of each, which are remembered.
struct LossJobs {
  CodeJobs jobs;
  BlockLoss* segments = nullptr;  ///< room for the sums of each segment
  BlockLoss* told = nullptr;      ///< memory that the host sees: of each block
};
static_assert(sizeof(LossJobs) <= 4000, "what is given to kernels");

/// Bytes of the rooms of teams: of those of segments, and of those of blocks, which are thread blocks of
/// kLossLanes lanes (row_choice.hpp).
inline constexpr std::size_t kSegmentLossRoom = kNumbersRoom + kMemoryRoom;
inline constexpr std::size_t kLossRoom = kLossLanes * sizeof(BlockLoss);

namespace {

template <std::uint32_t lanes, class Team>
DIT_SHARED void sum_by_halves(Team& team, BlockLoss* of) {
  for (std::uint32_t half = lanes / 2; half > 0; half /= 2) {
    team.each([&](std::uint32_t lane) {
      if (lane < half) of[lane] = sum_of(of[lane], of[lane + half]);
    });
  }
}

/// Numbers as elements of a tensor.
DIT_SHARED void round_to(WireElement element, float* x) {
  std::uint32_t word[kLaneNumbers / 2];
  if (element == WireElement::bf16) {
    write_numbers<LaneFormat::bf16>(x, word);
    read_numbers<LaneFormat::bf16>(word, x);
  } else if (element == WireElement::fp16) {
    write_numbers<LaneFormat::fp16>(x, word);
    read_numbers<LaneFormat::fp16>(word, x);
  }
}

/// Segment `index` of a block.
template <class Team>
DIT_SHARED void loss_of_segment(Team& team, const CodeJob& job, std::uint32_t index, BlockLoss* told) {
  const Segment segment = segment_at<LaneFormat::fp32>(job, index);
  std::byte* const room = team.room();
  typename Team::template Each<BlockLoss> losses;
  team.each([&](std::uint32_t lane) {
    tensor_in<JobKind::any, false>(lane, room, job, segment);
    memory_in<JobKind::any>(lane, room + kNumbersRoom, job, segment);
  });
  team.each([&](std::uint32_t lane) {
    const std::uint32_t count = count_of(segment, lane);
    LaneNumbers numbers, remembered;
    LaneMemory memory;
    numbers_of_lane(lane, room, job.element, count, numbers.x);
    memory_of_lane(lane, room + kNumbersRoom, false, memory);
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      remembered.x[i] = remembered_number(memory, i);
    }
    round_to(job.element, remembered.x);
    losses[lane] = loss_of_group(numbers.x, remembered.x, count);
  });
  auto* const sums = reinterpret_cast<BlockLoss*>(room);
  team.each([&](std::uint32_t lane) { sums[lane] = losses[lane]; });
  sum_by_halves<kTeamLanes>(team, sums);
  team.each([&](std::uint32_t lane) {
    if (lane == 0) *told = sums[0];
  });
}

template <class Team>
DIT_SHARED void loss_of_block(Team& team, const BlockLoss* segments, std::uint32_t count, BlockLoss* told) {
  auto* const sums = reinterpret_cast<BlockLoss*>(team.room());
  team.each([&](std::uint32_t lane) {
    BlockLoss own;
    for (std::uint32_t segment = lane; segment < count; segment += kLossLanes) {
      own = sum_of(own, segments[segment]);
    }
    sums[lane] = own;
  });
  sum_by_halves<kLossLanes>(team, sums);
  team.each([&](std::uint32_t lane) {
    if (lane == 0) *told = sums[0];
  });
}

}  // namespace
}  // namespace dit
