/// Between global memory and a team's room: numbers of a tensor with strides, and what is remembered of them.
/// Lanes read and write side by side in global memory, and each its own 32 numbers in the room.
#pragma once

#include "wire/device/code_job.hpp"

namespace dit {
namespace {

/// Numbers of a segment that a lane has.
DIT_SHARED std::uint32_t count_of(const Segment& segment, std::uint32_t lane) {
  const std::uint32_t before = lane * kLaneNumbers;
  return before >= segment.count ? 0 : least_of(kLaneNumbers, segment.count - before);
}

/// Units of a lane's numbers in the room.
DIT_SHARED std::uint32_t lane_units(WireElement element) {
  return element == WireElement::fp32 ? 8 : 4;
}
DIT_SHARED std::uint32_t element_bytes(WireElement element) {
  return element == WireElement::fp32 ? 4 : 2;
}

constexpr std::uint32_t kUnitsAtOnce = 4;  // of a lane, whose loads are under way together

/// Copies units 0 to `count` of a segment's from at(unit) into the room.
template <class At>
DIT_SHARED void units_in(std::uint32_t lane, std::byte* room, std::uint32_t count, std::uint32_t spread_by,
                         const At& at) {
  for (std::uint32_t begin = lane; begin < count; begin += kUnitsAtOnce * kTeamLanes) {
    Unit held[kUnitsAtOnce] = {};
    DIT_UNROLL
    for (std::uint32_t b = 0; b < kUnitsAtOnce; ++b) {
      const std::uint32_t unit = begin + b * kTeamLanes;
      if (unit < count) {
        held[b] = load<Unit>(at(unit));
      }
    }
    DIT_UNROLL
    for (std::uint32_t b = 0; b < kUnitsAtOnce; ++b) {
      const std::uint32_t unit = begin + b * kTeamLanes;
      if (unit < count) {
        store(unit_at(room, unit, spread_by), held[b]);
      }
    }
  }
}
template <class At>
DIT_SHARED void units_out(std::uint32_t lane, std::byte* room, std::uint32_t count, std::uint32_t spread_by,
                          const At& at) {
  for (std::uint32_t unit = lane; unit < count; unit += kTeamLanes) {
    store(at(unit), load<Unit>(unit_at(room, unit, spread_by)));
  }
}

/// The same of at most so many units, without loops, of lanes with up to four units each; zeros behind the
/// last one. `at_once`: they need not have arrived() when it returns, and take no registers.
template <std::uint32_t kMost, bool at_once, class At>
DIT_SHARED void some_units_in(std::uint32_t lane, std::byte* room, std::uint32_t count,
                              std::uint32_t spread_by, const At& at) {
  constexpr std::uint32_t kTurns = kMost / kTeamLanes;
  std::byte* const own = unit_at(room, lane, spread_by);  // as far in each turn's units
  Unit held[kTurns] = {};
  DIT_UNROLL
  for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
    const std::uint32_t unit = lane + turn * kTeamLanes;
    if constexpr (at_once) {
      start_copy(own + turn * kTeamLanes * sizeof(Unit), at(unit), unit < count);
    } else if (unit < count) {
      held[turn] = load<Unit>(at(unit));
    }
  }
  DIT_UNROLL
  for (std::uint32_t turn = 0; turn < kTurns && !at_once; ++turn) {
    store(own + turn * kTeamLanes * sizeof(Unit), held[turn]);
  }
}
template <std::uint32_t kMost, class At>
DIT_SHARED void some_units_out(std::uint32_t lane, std::byte* room, std::uint32_t count,
                               std::uint32_t spread_by, const At& at) {
  const std::byte* const own = unit_at(room, lane, spread_by);
  DIT_UNROLL
  for (std::uint32_t turn = 0; turn < kMost / kTeamLanes; ++turn) {
    const std::uint32_t unit = lane + turn * kTeamLanes;
    if (unit < count) {
      store(at(unit), load<Unit>(own + turn * kTeamLanes * sizeof(Unit)));
    }
  }
}

// ---- Tensors.

/// Where a segment's numbers are.
class SegmentPlace {
 public:
  DIT_SHARED SegmentPlace(const CodeJob& job, const Segment& segment)
      : job_(job), first_(segment.first), line_(line_of(job.place, segment.first, segment.count)) {}

  DIT_SHARED std::byte* at(std::uint32_t number) const {
    const std::int64_t offset = line_.rows > 0 ? offset_in(job_.place, line_, number)
                                               : offset_of(job_.place, index_of(job_.place, first_ + number));
    return job_.place.tensor + offset * element_bytes(job_.element);
  }

 private:
  const CodeJob& job_;
  std::uint32_t first_;
  Line line_;
};

template <class Number>
DIT_SHARED void numbers_in(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const SegmentPlace place(job, segment);
  const std::uint32_t units = lane_units(job.element);
  for (std::uint32_t i = lane; i < segment.count; i += kTeamLanes) {
    store(byte_at(room, i * sizeof(Number), units), load<Number>(place.at(i)));
  }
}
template <class Number>
DIT_SHARED void numbers_out(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  const SegmentPlace place(job, segment);
  const std::uint32_t units = lane_units(job.element);
  for (std::uint32_t i = lane; i < segment.count; i += kTeamLanes) {
    store(place.at(i), load<Number>(byte_at(room, i * sizeof(Number), units)));
  }
}

/// `at_once`: of some_units_in().
template <JobKind kind, bool at_once>
DIT_SHARED void tensor_in(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  if constexpr (kind != JobKind::any) {
    const PlainRows<2> rows(job.place, segment.first);
    return some_units_in<kSegment / 8, at_once>(lane, room, segment.count / 8, 4,
                                                [&](std::uint32_t unit) { return rows.at(unit * 8); });
  }
  const std::uint32_t bytes = element_bytes(job.element);
  if (job.place.wide) {
    const SegmentPlace place(job, segment);
    const std::uint32_t in_unit = static_cast<std::uint32_t>(sizeof(Unit)) / bytes;
    units_in(lane, room, segment.count / in_unit, lane_units(job.element),
             [&](std::uint32_t unit) { return place.at(unit * in_unit); });
  } else if (bytes == 4) {
    numbers_in<std::uint32_t>(lane, room, job, segment);
  } else {
    numbers_in<std::uint16_t>(lane, room, job, segment);
  }
}
template <JobKind kind>
DIT_SHARED void tensor_out(std::uint32_t lane, std::byte* room, const CodeJob& job, const Segment& segment) {
  if constexpr (kind != JobKind::any) {
    const PlainRows<2> rows(job.place, segment.first);
    return some_units_out<kSegment / 8>(lane, room, segment.count / 8, 4,
                                        [&](std::uint32_t unit) { return rows.at(unit * 8); });
  }
  const std::uint32_t bytes = element_bytes(job.element);
  if (job.place.wide) {
    const SegmentPlace place(job, segment);
    const std::uint32_t in_unit = static_cast<std::uint32_t>(sizeof(Unit)) / bytes;
    units_out(lane, room, segment.count / in_unit, lane_units(job.element),
              [&](std::uint32_t unit) { return place.at(unit * in_unit); });
  } else if (bytes == 4) {
    numbers_out<std::uint32_t>(lane, room, job, segment);
  } else {
    numbers_out<std::uint16_t>(lane, room, job, segment);
  }
}

/// A lane's numbers in the room, word after word.
template <std::uint32_t words>
DIT_SHARED void lane_words_in(std::uint32_t lane, std::byte* room, std::uint32_t* word) {
  constexpr std::uint32_t kUnits = words / 4;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kUnits; ++i) {
    const Unit unit = load<Unit>(unit_at(room, lane * kUnits + i, kUnits));
    DIT_UNROLL
    for (std::uint32_t w = 0; w < 4; ++w) {
      word[4 * i + w] = unit.word[w];
    }
  }
}
template <std::uint32_t words>
DIT_SHARED void lane_words_out(std::uint32_t lane, std::byte* room, const std::uint32_t* word) {
  constexpr std::uint32_t kUnits = words / 4;
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kUnits; ++i) {
    store(unit_at(room, lane * kUnits + i, kUnits),
          Unit{{word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]}});
  }
}

template <LaneFormat format>
DIT_SHARED void lane_in(std::uint32_t lane, std::byte* room, float* x) {
  std::uint32_t word[words_of(format)];
  lane_words_in<words_of(format)>(lane, room, word);
  read_numbers<format>(word, x);
}
template <LaneFormat format>
DIT_SHARED void lane_out(std::uint32_t lane, std::byte* room, const float* x) {
  std::uint32_t word[words_of(format)];
  write_numbers<format>(x, word);
  lane_words_out<words_of(format)>(lane, room, word);
}

DIT_SHARED void clear_behind(std::uint32_t count, float* x) {
  if (count < kLaneNumbers) {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      x[i] = i < count ? x[i] : 0.0F;
    }
  }
}

/// A lane's numbers out of the room; zeros beyond the first `count` of them.
DIT_SHARED void numbers_of_lane(std::uint32_t lane, std::byte* room, WireElement element, std::uint32_t count,
                                float* x) {
  if (element == WireElement::fp32) {
    lane_in<LaneFormat::fp32>(lane, room, x);
  } else if (element == WireElement::bf16) {
    lane_in<LaneFormat::bf16>(lane, room, x);
  } else {
    lane_in<LaneFormat::fp16>(lane, room, x);
  }
  clear_behind(count, x);
}
DIT_SHARED void numbers_to_room(std::uint32_t lane, std::byte* room, WireElement element, const float* x) {
  if (element == WireElement::fp32) {
    lane_out<LaneFormat::fp32>(lane, room, x);
  } else if (element == WireElement::bf16) {
    lane_out<LaneFormat::bf16>(lane, room, x);
  } else {
    lane_out<LaneFormat::fp16>(lane, room, x);
  }
}

}  // namespace
}  // namespace dit
