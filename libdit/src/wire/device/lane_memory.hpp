/// What is remembered of a lane's numbers: between global memory, the room and the lane, and how it moves on
/// (the references of codec_loops.hpp).
#pragma once

#include "wire/device/staging.hpp"

namespace dit {
namespace {

/// As it lies, in words.
struct LaneMemory {
  std::uint32_t value[kLaneNumbers / 2];
  std::uint32_t digits[kLaneNumbers / 4];
  std::uint32_t change[kLaneNumbers / 4];
};

// Parts of the room: values, digits, changes, with so many units of each lane.
constexpr std::uint32_t kValueUnits = 4, kByteUnits = 2;
constexpr std::size_t kDigitsRoom = kWireSegment * 2, kChangeRoom = kWireSegment * 3;

/// Of a number of what travels: its place in what is remembered.
DIT_SHARED std::size_t memory_index(const CodeJob& job, std::uint32_t number) {
  if (job.place.rows == nullptr) {
    return number;
  }
  const BlockIndex index = index_of(job.place, number);
  return std::size_t{index.row} * job.place.row.value + index.column;
}

DIT_SHARED bool moves_in_units(const CodeJob& job, const Segment& segment) {
  return job.memory.wide && (segment.first | segment.count) % sizeof(Unit) == 0;
}

template <JobKind kind>
DIT_SHARED void memory_in(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const JobMemory& memory = job.memory;
  if (kind != JobKind::any && segment.count % sizeof(Unit) == 0) {
    const std::size_t first = segment.first;
    some_units_in<kSegment / 8, true>(lane, room, segment.count / 8, kValueUnits,
                                      [&](std::uint32_t unit) { return memory.value + first + 8 * unit; });
    some_units_in<kSegment / 16, true>(lane, room + kDigitsRoom, segment.count / 16, kByteUnits,
                                       [&](std::uint32_t unit) { return memory.digits + first + 16 * unit; });
    if (memory.change != nullptr) {
      some_units_in<kSegment / 16, true>(
          lane, room + kChangeRoom, segment.count / 16, kByteUnits,
          [&](std::uint32_t unit) { return memory.change + first + 16 * unit; });
    }
    return;
  }
  if (kind == JobKind::any && moves_in_units(job, segment)) {
    units_in(lane, room, segment.count / 8, kValueUnits,
             [&](std::uint32_t unit) { return memory.value + memory_index(job, segment.first + 8 * unit); });
    units_in(lane, room + kDigitsRoom, segment.count / 16, kByteUnits, [&](std::uint32_t unit) {
      return memory.digits + memory_index(job, segment.first + 16 * unit);
    });
    if (memory.change != nullptr) {
      units_in(lane, room + kChangeRoom, segment.count / 16, kByteUnits, [&](std::uint32_t unit) {
        return memory.change + memory_index(job, segment.first + 16 * unit);
      });
    }
    return;
  }
  for (std::uint32_t i = lane; i < segment.count; i += kTeamLanes) {
    const std::size_t at = memory_index(job, segment.first + i);
    store(byte_at(room, 2 * i, kValueUnits), memory.value[at]);
    store(byte_at(room + kDigitsRoom, i, kByteUnits), memory.digits[at]);
    if (memory.change != nullptr) {
      store(byte_at(room + kChangeRoom, i, kByteUnits), memory.change[at]);
    }
  }
}

template <JobKind kind>
DIT_SHARED void memory_out(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const JobMemory& memory = job.memory;
  if (kind != JobKind::any && segment.count % sizeof(Unit) == 0) {
    const std::size_t first = segment.first;
    some_units_out<kSegment / 8>(lane, room, segment.count / 8, kValueUnits,
                                 [&](std::uint32_t unit) { return memory.value + first + 8 * unit; });
    some_units_out<kSegment / 16>(lane, room + kDigitsRoom, segment.count / 16, kByteUnits,
                                  [&](std::uint32_t unit) { return memory.digits + first + 16 * unit; });
    if (memory.change != nullptr) {
      some_units_out<kSegment / 16>(lane, room + kChangeRoom, segment.count / 16, kByteUnits,
                                    [&](std::uint32_t unit) { return memory.change + first + 16 * unit; });
    }
    return;
  }
  if (kind == JobKind::any && moves_in_units(job, segment)) {
    units_out(lane, room, segment.count / 8, kValueUnits,
              [&](std::uint32_t unit) { return memory.value + memory_index(job, segment.first + 8 * unit); });
    units_out(lane, room + kDigitsRoom, segment.count / 16, kByteUnits, [&](std::uint32_t unit) {
      return memory.digits + memory_index(job, segment.first + 16 * unit);
    });
    if (memory.change != nullptr) {
      units_out(lane, room + kChangeRoom, segment.count / 16, kByteUnits, [&](std::uint32_t unit) {
        return memory.change + memory_index(job, segment.first + 16 * unit);
      });
    }
    return;
  }
  for (std::uint32_t i = lane; i < segment.count; i += kTeamLanes) {
    const std::size_t at = memory_index(job, segment.first + i);
    memory.value[at] = load<std::uint16_t>(byte_at(room, 2 * i, kValueUnits));
    memory.digits[at] = load<std::uint8_t>(byte_at(room + kDigitsRoom, i, kByteUnits));
    if (memory.change != nullptr) {
      memory.change[at] = load<std::uint8_t>(byte_at(room + kChangeRoom, i, kByteUnits));
    }
  }
}

/// A lane's part out of the room, and back. Changes are zeros where there is no momentum.
DIT_SHARED void memory_of_lane(std::uint32_t lane, std::byte* room, bool changes, LaneMemory& memory) {
  lane_words_in<4 * kValueUnits>(lane, room, memory.value);
  lane_words_in<4 * kByteUnits>(lane, room + kDigitsRoom, memory.digits);
  DIT_UNROLL
  for (std::uint32_t& word : memory.change) {
    word = 0;
  }
  if (changes) {
    lane_words_in<4 * kByteUnits>(lane, room + kChangeRoom, memory.change);
  }
}
DIT_SHARED void memory_to_room(std::uint32_t lane, std::byte* room, bool changes, const LaneMemory& memory) {
  lane_words_out<4 * kValueUnits>(lane, room, memory.value);
  lane_words_out<4 * kByteUnits>(lane, room + kDigitsRoom, memory.digits);
  if (changes) {
    lane_words_out<4 * kByteUnits>(lane, room + kChangeRoom, memory.change);
  }
}

DIT_SHARED float remembered_number(const LaneMemory& memory, std::uint32_t i) {
  const std::uint32_t choice = (i % 2 == 0 ? 0x1044U : 0x3244U) + i % 4 * 0x10U;
  return float_of(bytes_from(memory.value[i / 2], memory.digits[i / 4], choice) & 0xffffff00U);
}
/// change_of(), of a byte that is a word's highest.
DIT_SHARED float change_at(const LaneMemory& memory, std::uint32_t i) {
  const std::uint32_t code = bytes_from(memory.change[i / 4], 0, 0x0444U + i % 4 * 0x1000U);
  const std::uint32_t magnitude = code & 0x7f000000U;
  const std::uint32_t bits = (magnitude >> 2U) + (static_cast<std::uint32_t>(kLeastChange) << 22U);
  return float_of((magnitude != 0 ? bits : 0U) | (code & kSignBit));
}
/// What both ends expect. `momentum`: of momentum_of(), so that without one the number stays, -0 too.
DIT_SHARED float momentum_of(const JobMemory& job) {
  return job.change != nullptr ? job.momentum : -0.0F;
}
DIT_SHARED float expected_number(const LaneMemory& memory, std::uint32_t i, float momentum) {
  return remembered_number(memory, i) + momentum * change_at(memory, i);
}
/// change_code() of a finite change, in fewer steps, in a word's highest byte.
DIT_SHARED std::uint32_t code_of_change(float change) {
  constexpr std::uint32_t kLeast = static_cast<std::uint32_t>(kLeastChange) << 22U;
  const float least = float_of(kLeast);
  const float most = float_of(static_cast<std::uint32_t>(kLeastChange + kMostChange) << 22U);
  const float magnitude = magnitude_of(change);
  const float not_less = magnitude < least ? least : magnitude;
  const float within = not_less < most ? not_less : most;
  const std::uint32_t steps = bits_of(within) * 4U + (0x200000U - kLeast) * 4U;
  return (steps & kMagnitude) | (bits_of(change) & kSignBit);
}

/// What is remembered when `x` have come. `sound`: all are is_finite().
template <bool sound>
DIT_SHARED void replace(LaneMemory& memory, const float* x) {
  DIT_UNROLL
  for (std::uint32_t w = 0; w < kLaneNumbers / 4; ++w) {
    std::uint32_t upper[4], change[4];
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      const float next = x[4 * w + i];
      const float before = remembered_number(memory, 4 * w + i);
      const bool is_sound = sound || is_finite(next);
      upper[i] = is_sound ? upper_bits(next) : bits_of(before);
      // What comes from nothing will not do so again.
      change[i] = code_of_change(next - before) & (is_sound && before != 0.0F ? ~0U : 0U);
    }
    memory.value[2 * w] = bytes_from(upper[0], upper[1], 0x7632U);
    memory.value[2 * w + 1] = bytes_from(upper[2], upper[3], 0x7632U);
    memory.digits[w] =
        bytes_from(bytes_from(upper[0], upper[1], 0x0051U), bytes_from(upper[2], upper[3], 0x0051U), 0x5410U);
    memory.change[w] = bytes_from(bytes_from(change[0], change[1], 0x0073U),
                                  bytes_from(change[2], change[3], 0x0073U), 0x5410U);
  }
}
DIT_SHARED void replace(LaneMemory& memory, const float* x) {
  float sums[2] = {0.0F, 0.0F};  // not finite where a number is, or is a quarter of the largest there is
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    sums[i % 2] = fused(x[i], 4.0F, sums[i % 2]);
  }
  if (magnitude_of(sums[0]) < float_of(kInfinity) && magnitude_of(sums[1]) < float_of(kInfinity)) {
    replace<true>(memory, x);
  } else {
    replace<false>(memory, x);
  }
}

/// x: what was decoded; of a residual it becomes what that stands for. `exact_nan`: in which NaN.
template <bool exact_nan>
DIT_SHARED void remember_lane(const JobMemory& job, LaneMemory& memory, float* x) {
  if (job.residual) {
    const float momentum = momentum_of(job);
    const bool broken = exact_nan && !are_finite<kLaneNumbers>(x);
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers && broken; ++i) {
      x[i] = sum(expected_number(memory, i, momentum), x[i]);
    }
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers && !broken; ++i) {
      x[i] = expected_number(memory, i, momentum) + x[i];
    }
  }
  replace(memory, x);
}
template <bool exact_nan>
DIT_SHARED void residual_of_lane(const JobMemory& job, const LaneMemory& memory, std::uint32_t count,
                                 float* x) {
  const float momentum = momentum_of(job);
  const bool broken = exact_nan && !are_finite<kLaneNumbers>(x);
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers && broken; ++i) {
    x[i] = difference(x[i], expected_number(memory, i, momentum));
  }
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers && !broken; ++i) {
    x[i] = x[i] - expected_number(memory, i, momentum);
  }
  clear_behind(count, x);
}

}  // namespace
}  // namespace dit
