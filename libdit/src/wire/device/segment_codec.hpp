/// One segment of a block, by a team: from the tensor to its code, and from the code to the tensor. The same
/// bits as wire/codec.hpp's. The tensor is read once; what is remembered, read and written once.
#pragma once

#include "wire/device/fp8_lanes.hpp"
#include "wire/device/lane_memory.hpp"

namespace dit {

/// Of a team that encodes or decodes fp8: the exponents of a segment's rows, behind the rest of the room.
inline constexpr std::size_t kRowsRoom = sizeof(std::uint32_t) * kWireSegment;
[[nodiscard]] DIT_SHARED constexpr std::size_t room_of(LaneFormat format, bool remembers) {
  return kNumbersRoom + (remembers ? kMemoryRoom : 0) + (format == LaneFormat::fp8 ? kRowsRoom : 0);
}

namespace {

template <LaneFormat format>
struct GroupOf;
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

/// Rows of fp8 as a segment has them: of one that is a part of a row, that part.
struct SegmentRows {
  Divisor row, code;
  std::uint32_t count;
};
constexpr Divisor kOneRow{1, 1U << 31U, 1};  // whose quotients are 0
DIT_SHARED SegmentRows rows_of(const CodeJob& job, const Segment& segment) {
  const std::uint32_t row = job.place.row.value;
  if (row < segment.count) {
    return {job.place.row, job.row_code, quotient(segment.count, job.place.row)};
  }
  return {kOneRow, kOneRow, 1};
}

template <LaneFormat format, bool remembers>
class SegmentCodec {
 public:
  template <class Team>
  DIT_SHARED static void encode(Team& team, const CodeJob& job, std::uint32_t index) {
    const Segment segment = segment_at<format>(job, index);
    std::byte* const room = team.room();
    typename Team::template Each<LaneNumbers> numbers;
    typename Team::template Each<LaneMemory> memories;
    team.each([&](std::uint32_t lane) {
      tensor_in(lane, room, job, segment);
      if constexpr (remembers) memory_in(lane, memory_room(room), job, segment);
      if constexpr (format == LaneFormat::fp8) clear_rows(lane, room, rows_of(job, segment).count);
    });
    team.each([&](std::uint32_t lane) {
      float* const x = numbers[lane].x;
      const std::uint32_t count = count_of(segment, lane);
      numbers_of_lane(lane, room, job.element, count, x);
      if constexpr (remembers) {
        memory_of_lane(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
        if (job.memory.residual) residual_of_lane<kExactNan>(job.memory, memories[lane], count, x);
      }
    });
    write(team, job, segment, numbers, memories);
  }

  template <class Team>
  DIT_SHARED static void decode(Team& team, const CodeJob& job, std::uint32_t index) {
    const Segment segment = segment_at<format>(job, index);
    std::byte* const room = team.room();
    const std::uint8_t* const code = job.code + segment.code;
    typename Team::template Each<LaneNumbers> numbers;
    typename Team::template Each<LaneMemory> memories;
    team.each([&](std::uint32_t lane) {
      code_to_team(lane, room, job, segment);
      if constexpr (remembers) memory_in(lane, memory_room(room), job, segment);
    });
    team.each([&](std::uint32_t lane) {
      float* const x = numbers[lane].x;
      std::uint32_t word[words_of(format)];
      code_of_lane<format>(lane, room, bytes_before_of(job, segment), word);
      decode_words(lane, job, segment, room, word, scale_at(code, segment, lane), top_at(code), x);
      if constexpr (remembers) {
        memory_of_lane(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
        remember_lane<kExactNan>(job.memory, memories[lane], x);
        if constexpr (has_scales(format)) {  // of a group of NaNs each is the one that came
          const std::uint8_t scale = scale_at(code, segment, lane);
          if (is_broken(scale, top_at(code)))
            decode_words(lane, job, segment, room, word, scale, top_at(code), x);
        }
      }
    });
    team.each([&](std::uint32_t lane) {
      numbers_to_room(lane, room, job.element, numbers[lane].x);
      if constexpr (remembers) {
        memory_to_room(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
      }
    });
    team.each([&](std::uint32_t lane) {
      if (job.place.tensor != nullptr) tensor_out(lane, room, job, segment);
      if constexpr (remembers) memory_out(lane, memory_room(room), job, segment);
    });
  }

 private:
  static constexpr std::uint32_t kUnits = code_units(format);
  static constexpr std::uint32_t kLaneBytes = 4 * words_of(format);
  static constexpr bool kExactNan = !has_scales(format);  // NaNs have bits, or a sign, that arrive

  DIT_SHARED static bool is_broken(std::uint8_t scale, std::uint32_t top) {
    return (bits_of(scale_of(scale, top)) & kMagnitude) > kInfinity;
  }

  DIT_SHARED static std::byte* memory_room(std::byte* room) { return room + kNumbersRoom; }
  DIT_SHARED static std::uint32_t* rows_room(std::byte* room) {
    return reinterpret_cast<std::uint32_t*>(room + kNumbersRoom + (remembers ? kMemoryRoom : 0));
  }
  DIT_SHARED static std::uint32_t count_of(const Segment& segment, std::uint32_t lane) {
    const std::uint32_t before = lane * kLaneNumbers;
    return before >= segment.count ? 0 : least_of(kLaneNumbers, segment.count - before);
  }
  DIT_SHARED static std::uint32_t groups_of(const Segment& segment) {
    return (segment.count + kLaneNumbers - 1) / kLaneNumbers;
  }
  DIT_SHARED static void clear_rows(std::uint32_t lane, std::byte* room, std::uint32_t rows) {
    for (std::uint32_t row = lane; row < rows; row += kTeamLanes) {
      rows_room(room)[row] = 0;
    }
  }

  /// From numbers to the code, and what is remembered.
  template <class Team, class Numbers, class Memories>
  DIT_SHARED static void write(Team& team, const CodeJob& job, const Segment& segment, Numbers& numbers,
                               Memories& memories) {
    std::byte* const room = team.room();
    typename Team::template Each<LaneScale> scales;
    std::uint32_t top = 0;
    if constexpr (has_scales(format)) {
      team.each([&](std::uint32_t lane) {
        scales[lane] = lane_scale<typename GroupOf<format>::Type>(numbers[lane].x, count_of(segment, lane));
      });
      top = team.most([&](std::uint32_t lane) { return bits_of(scales[lane].scale) >> 23U; });
    }
    if constexpr (format == LaneFormat::fp8) {
      const SegmentRows rows = rows_of(job, segment);
      if (rows.count == 1) {
        const std::uint32_t exponent = team.most([&](std::uint32_t lane) {
          return count_of(segment, lane) > 0 ? exponent_of_lane(numbers[lane].x) : 0;
        });
        team.each([&](std::uint32_t lane) {
          if (lane == 0) rows_room(room)[0] = exponent;
        });
      } else {
        team.each([&](std::uint32_t lane) {
          raise_exponents(team, lane, rows.row, count_of(segment, lane), numbers[lane].x, rows_room(room));
        });
      }
    }
    team.each([&](std::uint32_t lane) {
      float* const x = numbers[lane].x;
      std::uint32_t word[words_of(format)];
      const std::uint8_t scale = encode_words(lane, job, segment, room, scales[lane], top, x, word);
      code_to_room<format>(lane, room, word);
      if constexpr (has_scales(format)) write_scale(lane, job.code + segment.code, segment, scale, top);
      if constexpr (remembers) {
        decode_words(lane, job, segment, room, word, scale, static_cast<std::uint8_t>(top), x);
        remember_lane<false>(job.memory, memories[lane], x);  // of which nobody sees the numbers
        memory_to_room(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
      }
    });
    team.each([&](std::uint32_t lane) {
      code_from_team(lane, room, job, segment);
      if constexpr (remembers) memory_out(lane, memory_room(room), job, segment);
    });
  }

  DIT_SHARED static std::uint8_t encode_words(std::uint32_t lane, const CodeJob& job, const Segment& segment,
                                              std::byte* room, const LaneScale& scale, std::uint32_t top,
                                              const float* x, std::uint32_t* word) {
    if constexpr (has_scales(format)) {
      return encode_lane<typename GroupOf<format>::Type>(x, scale, top, word);
    } else if constexpr (format == LaneFormat::fp8) {
      encode_fp8_lane(lane, rows_of(job, segment).row, count_of(segment, lane), x, rows_room(room), word);
    } else {
      write_numbers<format>(x, word);
    }
    return 0;
  }
  DIT_SHARED static void decode_words(std::uint32_t lane, const CodeJob& job, const Segment& segment,
                                      std::byte* room, const std::uint32_t* word, std::uint8_t scale,
                                      std::uint8_t top, float* x) {
    if constexpr (has_scales(format)) {
      decode_lane<typename GroupOf<format>::Type>(word, scale, top, x);
    } else if constexpr (format == LaneFormat::fp8) {
      decode_fp8_lane(lane, rows_of(job, segment).row, count_of(segment, lane), word, rows_room(room), x);
    } else {
      read_numbers<format>(word, x);
    }
  }

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
  DIT_SHARED static std::uint8_t scale_at(const std::uint8_t* code, const Segment& segment,
                                          std::uint32_t lane) {
    return has_scales(format) && lane < groups_of(segment) ? code[1 + lane] : std::uint8_t{0};
  }
  DIT_SHARED static std::uint8_t top_at(const std::uint8_t* code) {
    return has_scales(format) ? code[0] : std::uint8_t{0};
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

  DIT_SHARED static void code_from_team(std::uint32_t lane, std::byte* room, const CodeJob& job,
                                        const Segment& segment) {
    std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      const SegmentRows rows = rows_of(job, segment);
      if (rows.count == 1) {
        if (lane == 0) code[0] = static_cast<std::uint8_t>(rows_room(room)[0]);
        code_out(lane, room, kUnits, segment.count, code + 1);
      } else {
        fp8_rows_out(lane, room, rows_room(room), rows.row, rows.code, segment.count + rows.count, code);
      }
    } else {
      code_out(lane, room, kUnits, room_bytes(segment), code + header_bytes(segment));
    }
  }
  DIT_SHARED static void code_to_team(std::uint32_t lane, std::byte* room, const CodeJob& job,
                                      const Segment& segment) {
    const std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      const SegmentRows rows = rows_of(job, segment);
      for (std::uint32_t row = lane; row < rows.count; row += kTeamLanes) {
        rows_room(room)[row] = code[row * rows.code.value];
      }
      if (rows.count == 1) {
        code_in<format>(lane, room, segment.count, code + 1);
      } else {
        fp8_rows_in(lane, room, rows.row, segment.count, code);
      }
    } else {
      code_in<format>(lane, room, room_bytes(segment), code + header_bytes(segment));
    }
  }
  /// Bytes of the room before the codes that code_to_team() has read.
  DIT_SHARED static std::uint32_t bytes_before_of(const CodeJob& job, const Segment& segment) {
    const std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      return rows_of(job, segment).count == 1 ? bytes_before<format>(code + 1) : 0;
    }
    return bytes_before<format>(code + header_bytes(segment));
  }
};

/// Numbers that are remembered, to the tensor; `moves`: after they moved on as both ends expect.
template <bool moves, class Team>
DIT_SHARED void recall_segment(Team& team, const CodeJob& job, std::uint32_t index) {
  const Segment segment = segment_at<LaneFormat::fp32>(job, index);
  std::byte* const room = team.room();
  std::byte* const memory_room = room + kNumbersRoom;
  const bool changes = job.memory.change != nullptr;
  team.each([&](std::uint32_t lane) { memory_in(lane, memory_room, job, segment); });
  team.each([&](std::uint32_t lane) {
    LaneMemory memory;
    LaneNumbers numbers;
    memory_of_lane(lane, memory_room, changes, memory);
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      numbers.x[i] = moves ? expected_number(memory.bits[i], changes, job.memory.momentum)
                           : remembered_number(memory.bits[i]);
      if constexpr (moves) memory.bits[i] = replaced(memory.bits[i], changes, numbers.x[i]);
    }
    numbers_to_room(lane, room, job.element, numbers.x);
    if constexpr (moves) memory_to_room(lane, memory_room, changes, memory);
  });
  team.each([&](std::uint32_t lane) {
    if (job.place.tensor != nullptr) tensor_out(lane, room, job, segment);
    if constexpr (moves) memory_out(lane, memory_room, job, segment);
  });
}

template <CodeWork work, LaneFormat format, bool remembers, class Team>
DIT_SHARED void run_segment(Team& team, const CodeJob& job, std::uint32_t index) {
  if constexpr (work == CodeWork::encode) {
    SegmentCodec<format, remembers>::encode(team, job, index);
  } else if constexpr (work == CodeWork::decode) {
    SegmentCodec<format, remembers>::decode(team, job, index);
  } else {
    recall_segment<work == CodeWork::extrapolate>(team, job, index);
  }
}

}  // namespace
}  // namespace dit
