/// What is remembered of a lane's numbers: between global memory, the room and the lane, and how it moves on
/// (the references of codec_loops.hpp).
#pragma once

#include "wire/device/staging.hpp"

namespace dit {
namespace {

/// Of each number: value, digits and change, from the highest bits to the lowest.
struct LaneMemory {
  std::uint32_t bits[kLaneNumbers];
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

DIT_SHARED void memory_in(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const JobMemory& memory = job.memory;
  if (moves_in_units(job, segment)) {
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

DIT_SHARED void memory_out(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const JobMemory& memory = job.memory;
  if (moves_in_units(job, segment)) {
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
  DIT_UNROLL
  for (std::uint32_t half = 0; half < 2; ++half) {
    const Unit digits = load<Unit>(unit_at(room + kDigitsRoom, lane * kByteUnits + half, kByteUnits));
    const Unit change = changes
                            ? load<Unit>(unit_at(room + kChangeRoom, lane * kByteUnits + half, kByteUnits))
                            : Unit{{0, 0, 0, 0}};
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 16; i += 8) {
      const Unit value = load<Unit>(unit_at(room, lane * kValueUnits + 2 * half + i / 8, kValueUnits));
      DIT_UNROLL
      for (std::uint32_t j = 0; j < 8; ++j) {
        const std::uint32_t byte = (i + j) % 4;
        const std::uint32_t upper = bytes_from(value.word[j / 2], digits.word[(i + j) / 4],
                                               (j % 2 == 0 ? 0x1044U : 0x3244U) + byte * 0x10U);
        memory.bits[16 * half + i + j] = bytes_from(upper, change.word[(i + j) / 4], 0x3214U + byte);
      }
    }
  }
}
DIT_SHARED void memory_to_room(std::uint32_t lane, std::byte* room, bool changes, const LaneMemory& memory) {
  DIT_UNROLL
  for (std::uint32_t half = 0; half < 2; ++half) {
    Unit digits, change;
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t* const bits = memory.bits + 16 * half + 4 * i;
      digits.word[i] =
          bytes_from(bytes_from(bits[0], bits[1], 0x0051U), bytes_from(bits[2], bits[3], 0x0051U), 0x5410U);
      change.word[i] =
          bytes_from(bytes_from(bits[0], bits[1], 0x0040U), bytes_from(bits[2], bits[3], 0x0040U), 0x5410U);
    }
    DIT_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      Unit value;
      DIT_UNROLL
      for (std::uint32_t j = 0; j < 4; ++j) {
        const std::uint32_t* const bits = memory.bits + 16 * half + 8 * i + 2 * j;
        value.word[j] = bytes_from(bits[0], bits[1], 0x7632U);
      }
      store(unit_at(room, lane * kValueUnits + 2 * half + i, kValueUnits), value);
    }
    store(unit_at(room + kDigitsRoom, lane * kByteUnits + half, kByteUnits), digits);
    if (changes) {
      store(unit_at(room + kChangeRoom, lane * kByteUnits + half, kByteUnits), change);
    }
  }
}

DIT_SHARED float remembered_number(std::uint32_t bits) {
  return float_of(bits & 0xffffff00U);
}
/// What both ends expect.
DIT_SHARED float expected_number(std::uint32_t bits, bool changes, float momentum) {
  const float value = remembered_number(bits);
  return changes ? value + momentum * change_of(static_cast<std::uint8_t>(bits)) : value;
}
/// change_code() of a finite change, in fewer steps.
DIT_SHARED std::uint32_t code_of_change(float change) {
  const float least = float_of(static_cast<std::uint32_t>(kLeastChange) << 22U);
  const float most = float_of(static_cast<std::uint32_t>(kLeastChange + kMostChange) << 22U);
  const float magnitude = magnitude_of(change);
  const float not_less = magnitude < least ? least : magnitude;
  const float within = not_less < most ? not_less : most;
  const std::uint32_t steps =
      (bits_of(within) - (static_cast<std::uint32_t>(kLeastChange) << 22U) + 0x200000U) >> 22U;
  return steps | (bits_of(change) >> 24U & 0x80U);
}
/// What is remembered when `next` has come.
DIT_SHARED std::uint32_t replaced(std::uint32_t bits, bool changes, float next) {
  const float before = remembered_number(bits);
  const bool sound = is_finite(next);
  const bool moves = sound && before != 0.0F;  // what comes from nothing will not do so again
  const std::uint32_t change = changes && moves ? code_of_change(next - before) : 0U;
  return ((sound ? upper_bits(next) : bits) & 0xffffff00U) | change;
}

/// x: what was decoded; of a residual it becomes what that stands for. `exact_nan`: in which NaN.
template <bool exact_nan>
DIT_SHARED void remember_lane(const JobMemory& job, LaneMemory& memory, float* x) {
  const bool changes = job.change != nullptr;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    if (job.residual) {
      const float expected = expected_number(memory.bits[i], changes, job.momentum);
      x[i] = exact_nan ? sum(expected, x[i]) : expected + x[i];
    }
    memory.bits[i] = replaced(memory.bits[i], changes, x[i]);
  }
}
template <bool exact_nan>
DIT_SHARED void residual_of_lane(const JobMemory& job, const LaneMemory& memory, std::uint32_t count,
                                 float* x) {
  const bool changes = job.change != nullptr;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
    const float expected = expected_number(memory.bits[i], changes, job.momentum);
    x[i] = exact_nan ? difference(x[i], expected) : x[i] - expected;
  }
  clear_behind(count, x);
}

}  // namespace
}  // namespace dit
