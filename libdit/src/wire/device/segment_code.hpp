/// How a segment's code lies in global memory and in a team's room, whoever makes it.
#pragma once

#include "wire/device/fp8_lanes.hpp"
#include "wire/device/lane_memory.hpp"

namespace dit {

/// A team's room: numbers of a tensor, or a code; what is remembered; of fp8 the exponents of a segment's
/// rows.
struct RoomParts {
  std::size_t numbers, memory, rows;
  [[nodiscard]] DIT_SHARED constexpr std::size_t all() const { return numbers + memory + rows; }
};
/// Numbers of 16 bits take half of the room, and a code of them as much and the bytes before it. Rows of 16
/// bytes or more are at most an eighth of a segment's numbers.
[[nodiscard]] DIT_SHARED constexpr RoomParts room_of(LaneFormat format, bool remembers, JobKind kind) {
  const bool any = kind == JobKind::any;
  const std::size_t rows = kind == JobKind::one_row ? 4 : any ? kWireSegment : kWireSegment / 8;
  return {any ? kNumbersRoom : kNumbersRoom / 2 + sizeof(Unit), remembers ? kMemoryRoom : 0,
          format == LaneFormat::fp8 ? rows * sizeof(std::uint32_t) : 0};
}

namespace {

template <LaneFormat format>
struct GroupOf {
  using Type = void;  // no scales
};
template <>
struct GroupOf<LaneFormat::int8> {
  using Type = Int8;
};
template <>
struct GroupOf<LaneFormat::int4> {
  using Type = Int4;
};
template <>
struct GroupOf<LaneFormat::int2> {
  using Type = Int2;
};
template <>
struct GroupOf<LaneFormat::int1> {
  using Type = Int1;
};

DIT_SHARED std::uint32_t groups_of(const Segment& segment) {
  return (segment.count + kLaneNumbers - 1) / kLaneNumbers;
}

template <LaneFormat format>
struct SegmentCode {
  static constexpr std::uint32_t kLaneBytes = 4 * words_of(format);

  // Of formats with scales: the segment's exponent, a byte for each group, the groups.
  DIT_SHARED static void write_scale(std::uint32_t lane, std::uint8_t* code, const Segment& segment,
                                     std::uint8_t scale, std::uint32_t top) {
    if (lane < groups_of(segment)) {
      code[1 + lane] = scale;
    }
    if (lane == 0) {
      code[0] = static_cast<std::uint8_t>(top);
    }
  }
  /// What came of it.
  struct LaneHead {
    std::uint8_t scale, top;
  };
  DIT_SHARED static LaneHead head_of(std::uint32_t lane, const std::uint8_t* code, const Segment& segment) {
    if constexpr (has_scales(format)) {
      return {lane < groups_of(segment) ? code[1 + lane] : std::uint8_t{0}, code[0]};
    }
    return {0, 0};
  }

  /// Bytes of the code as they lie in the room, and where they begin in the segment's.
  DIT_SHARED static std::uint32_t room_bytes(const Segment& segment) {
    if constexpr (has_scales(format)) {
      return groups_of(segment) * kLaneBytes;
    }
    return segment.count * (kLaneBytes / kLaneNumbers);
  }
  DIT_SHARED static std::uint32_t header_bytes(const Segment& segment) {
    return has_scales(format) ? 1 + groups_of(segment) : 0;
  }
};

}  // namespace
}  // namespace dit
