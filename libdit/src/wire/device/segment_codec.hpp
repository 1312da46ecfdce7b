/// One segment of a block, by a team: from the tensor to its code, and from the code to the tensor. The same
/// bits as wire/codec.hpp's. The tensor is read once; what is remembered, read and written once.
#pragma once

#include "wire/device/packed_codec.hpp"

namespace dit {

namespace {

/// Rows of fp8 as a segment has them: of one that is a part of a row, that part.
struct SegmentRows {
  Divisor row, code;
  std::uint32_t count;
};
constexpr Divisor kOneRow{1, 1U << 31U, 1};  // whose quotients are 0
template <JobKind kind>
DIT_SHARED SegmentRows rows_of(const CodeJob& job, const Segment& segment) {
  const std::uint32_t row = job.place.row.value;
  if (kind != JobKind::one_row && row < segment.count) {
    return {job.place.row, job.row_code, quotient(segment.count, job.place.row)};
  }
  return {kOneRow, kOneRow, 1};
}

template <LaneFormat format, bool remembers, JobKind kind>
class SegmentCodec {
  using Code = SegmentCode<format>;

 public:
  template <class Team>
  DIT_SHARED static void encode(Team& team, const CodeJob& job, std::uint32_t index) {
    const Segment segment = segment_at<format>(job, index);
    std::byte* const room = team.room();
    typename Team::template Each<LaneNumbers> numbers;
    typename Team::template Each<LaneMemory> memories;
    team.each([&](std::uint32_t lane) {
      tensor_in<kind, remembers>(lane, room, job, segment);
      if constexpr (remembers) memory_in<kind>(lane, memory_room(room), job, segment);
      if constexpr (format == LaneFormat::fp8) clear_rows(lane, room, rows_of<kind>(job, segment).count);
      if constexpr (remembers) arrived();
    });
    team.each([&](std::uint32_t lane) {
      float* const x = numbers[lane].x;
      const std::uint32_t count = count_of(segment, lane);
      numbers_of_lane(lane, room, element_of<kind>(job), count, x);
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
    typename Team::template Each<LaneNumbers> numbers;
    typename Team::template Each<LaneMemory> memories;
    typename Team::template Each<typename Code::LaneHead> heads;
    team.each([&](std::uint32_t lane) {
      heads[lane] = Code::head_of(lane, job.code + segment.code, segment);
      code_to_team(lane, room, job, segment);
      if constexpr (remembers) memory_in<kind>(lane, memory_room(room), job, segment);
      if constexpr (remembers) arrived();
    });
    team.each([&](std::uint32_t lane) {
      float* const x = numbers[lane].x;
      std::uint32_t word[words_of(format)];
      code_of_lane<format>(lane, room, bytes_before_of(job, segment), word);
      decode_words(lane, job, segment, room, word, heads[lane].scale, heads[lane].top, x);
      if constexpr (remembers) {
        memory_of_lane(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
        remember_lane<kExactNan>(job.memory, memories[lane], x);
        if constexpr (has_scales(format)) {  // of a group of NaNs each is the one that came
          if (is_broken(heads[lane].scale, heads[lane].top))
            decode_words(lane, job, segment, room, word, heads[lane].scale, heads[lane].top, x);
        }
      }
    });
    team.each([&](std::uint32_t lane) {
      numbers_to_room(lane, room, element_of<kind>(job), numbers[lane].x);
      if constexpr (remembers) {
        memory_to_room(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
      }
    });
    team.each([&](std::uint32_t lane) {
      if (job.place.tensor != nullptr) tensor_out<kind>(lane, room, job, segment);
      if constexpr (remembers) memory_out<kind>(lane, memory_room(room), job, segment);
    });
  }

 private:
  static constexpr RoomParts kRoom = room_of(format, remembers, kind);
  static constexpr bool kExactNan = !has_scales(format);  // NaNs have bits, or a sign, that arrive

  DIT_SHARED static bool is_broken(std::uint8_t scale, std::uint32_t top) {
    return (bits_of(scale_of(scale, top)) & kMagnitude) > kInfinity;
  }

  DIT_SHARED static std::byte* memory_room(std::byte* room) { return room + kRoom.numbers; }
  DIT_SHARED static std::uint32_t* rows_room(std::byte* room) {
    return reinterpret_cast<std::uint32_t*>(room + kRoom.numbers + kRoom.memory);
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
      const SegmentRows rows = rows_of<kind>(job, segment);
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
      if constexpr (has_scales(format)) Code::write_scale(lane, job.code + segment.code, segment, scale, top);
      if constexpr (remembers) {
        decode_words(lane, job, segment, room, word, scale, static_cast<std::uint8_t>(top), x);
        remember_lane<false>(job.memory, memories[lane], x);  // of which nobody sees the numbers
        memory_to_room(lane, memory_room(room), job.memory.change != nullptr, memories[lane]);
      }
    });
    team.each([&](std::uint32_t lane) {
      code_from_team(lane, room, job, segment);
      if constexpr (remembers) memory_out<kind>(lane, memory_room(room), job, segment);
    });
  }

  DIT_SHARED static std::uint8_t encode_words(std::uint32_t lane, const CodeJob& job, const Segment& segment,
                                              std::byte* room, const LaneScale& scale, std::uint32_t top,
                                              const float* x, std::uint32_t* word) {
    if constexpr (has_scales(format)) {
      return encode_lane<typename GroupOf<format>::Type>(x, scale, top, word);
    } else if constexpr (format == LaneFormat::fp8) {
      encode_fp8_lane(lane, rows_of<kind>(job, segment).row, count_of(segment, lane), x, rows_room(room),
                      word);
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
      decode_fp8_lane(lane, rows_of<kind>(job, segment).row, count_of(segment, lane), word, rows_room(room),
                      x);
    } else {
      read_numbers<format>(word, x);
    }
  }

  DIT_SHARED static void code_from_team(std::uint32_t lane, std::byte* room, const CodeJob& job,
                                        const Segment& segment) {
    std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      const SegmentRows rows = rows_of<kind>(job, segment);
      if (rows.count == 1) {
        if (lane == 0) code[0] = static_cast<std::uint8_t>(rows_room(room)[0]);
        code_out<format>(lane, room, segment.count, code + 1);
      } else {
        fp8_rows_out(lane, room, rows_room(room), rows.row, rows.code, segment.count + rows.count, code);
      }
    } else {
      code_out<format>(lane, room, Code::room_bytes(segment), code + Code::header_bytes(segment));
    }
  }
  DIT_SHARED static void code_to_team(std::uint32_t lane, std::byte* room, const CodeJob& job,
                                      const Segment& segment) {
    const std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      const SegmentRows rows = rows_of<kind>(job, segment);
      for (std::uint32_t row = lane; row < rows.count; row += kTeamLanes) {
        rows_room(room)[row] = code[row * rows.code.value];
      }
      if (rows.count == 1) {
        code_in<format>(lane, room, segment.count, code + 1);
      } else {
        fp8_rows_in(lane, room, rows.row, segment.count, code);
      }
    } else {
      code_in<format>(lane, room, Code::room_bytes(segment), code + Code::header_bytes(segment));
    }
  }
  /// Bytes of the room before the codes that code_to_team() has read.
  DIT_SHARED static std::uint32_t bytes_before_of(const CodeJob& job, const Segment& segment) {
    const std::uint8_t* const code = job.code + segment.code;
    if constexpr (format == LaneFormat::fp8) {
      return rows_of<kind>(job, segment).count == 1 ? bytes_before<format>(code + 1) : 0;
    }
    return bytes_before<format>(code + Code::header_bytes(segment));
  }
};

/// Numbers that are remembered, to the tensor; `moves`: after they moved on as both ends expect.
template <bool moves, JobKind kind, class Team>
DIT_SHARED void recall_segment(Team& team, const CodeJob& job, std::uint32_t index) {
  const Segment segment = segment_at<LaneFormat::fp32>(job, index);
  std::byte* const room = team.room();
  std::byte* const memory_room = room + room_of(LaneFormat::fp32, true, kind).numbers;
  const bool changes = job.memory.change != nullptr;
  team.each([&](std::uint32_t lane) {
    memory_in<kind>(lane, memory_room, job, segment);
    arrived();
  });
  team.each([&](std::uint32_t lane) {
    LaneMemory memory;
    LaneNumbers numbers;
    memory_of_lane(lane, memory_room, changes, memory);
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kLaneNumbers; ++i) {
      numbers.x[i] =
          moves ? expected_number(memory, i, momentum_of(job.memory)) : remembered_number(memory, i);
    }
    if constexpr (moves) replace(memory, numbers.x);
    numbers_to_room(lane, room, element_of<kind>(job), numbers.x);
    if constexpr (moves) memory_to_room(lane, memory_room, changes, memory);
  });
  team.each([&](std::uint32_t lane) {
    if (job.place.tensor != nullptr) tensor_out<kind>(lane, room, job, segment);
    if constexpr (moves) memory_out<kind>(lane, memory_room, job, segment);
  });
}

template <CodeWork work, LaneFormat format, bool remembers, JobKind kind, class Team>
DIT_SHARED void run_segment(Team& team, const CodeJob& job, std::uint32_t index) {
  if constexpr (work == CodeWork::encode && stays_packed(format, remembers, kind)) {
    PackedCodec<format, kind>::encode(team, job, index);
  } else if constexpr (work == CodeWork::decode && stays_packed(format, remembers, kind)) {
    PackedCodec<format, kind>::decode(team, job, index);
  } else if constexpr (work == CodeWork::encode) {
    SegmentCodec<format, remembers, kind>::encode(team, job, index);
  } else if constexpr (work == CodeWork::decode) {
    SegmentCodec<format, remembers, kind>::decode(team, job, index);
  } else {
    recall_segment<work == CodeWork::extrapolate, kind>(team, job, index);
  }
}

}  // namespace
}  // namespace dit
