/// SegmentCodec (segment_codec.hpp) of bf16 numbers that become a code at once, with nothing remembered: they
/// stay two in a word. Of fp8 those of segments of one row.
#pragma once

#include "wire/device/segment_code.hpp"

namespace dit {

[[nodiscard]] DIT_SHARED constexpr bool stays_packed(LaneFormat format, bool remembers, JobKind kind) {
  return !remembers && (format == LaneFormat::fp8 ? kind == JobKind::one_row
                                                  : has_scales(format) && kind == JobKind::plain_bf16);
}

namespace {

template <LaneFormat format, JobKind kind>
class PackedCodec {
  using Code = SegmentCode<format>;
  using Group = typename GroupOf<format>::Type;
  static constexpr bool kScales = has_scales(format);

 public:
  template <class Team>
  DIT_SHARED static void encode(Team& team, const CodeJob& job, std::uint32_t index) {
    const Segment segment = segment_at<format>(job, index);
    std::byte* const room = team.room();
    std::uint8_t* const code = job.code + segment.code;
    typename Team::template Each<LaneWords> words;
    typename Team::template Each<LaneScale> scales;
    team.each([&](std::uint32_t lane) { tensor_in<kind, false>(lane, room, job, segment); });
    team.each([&](std::uint32_t lane) {
      lane_words_in<kLaneWords>(lane, room, words[lane].word);  // zeros behind the last number
      if constexpr (kScales) {
        scales[lane] = packed_scale<Group>(words[lane].word, count_of(segment, lane));
      }
    });
    const std::uint32_t top = team.most([&](std::uint32_t lane) {
      if constexpr (kScales) {
        return bits_of(scales[lane].scale) >> 23U;
      } else {
        return exponent_of_packed(words[lane].word);
      }
    });
    team.each([&](std::uint32_t lane) {
      std::uint32_t word[words_of(format)];
      if constexpr (kScales) {
        const std::uint8_t scale = encode_packed<Group>(words[lane].word, scales[lane], top, word);
        Code::write_scale(lane, code, segment, scale, top);
      } else {
        encode_fp8_packed(words[lane].word, top, word);
        if (lane == 0) code[0] = static_cast<std::uint8_t>(top);
      }
      code_to_room<format>(lane, room, word);
    });
    team.each([&](std::uint32_t lane) {
      code_out<format>(lane, room, Code::room_bytes(segment), code + header_bytes(segment));
    });
  }

  template <class Team>
  DIT_SHARED static void decode(Team& team, const CodeJob& job, std::uint32_t index) {
    const Segment segment = segment_at<format>(job, index);
    std::byte* const room = team.room();
    const std::uint8_t* const code = job.code + segment.code;
    const std::uint8_t* const body = code + header_bytes(segment);
    typename Team::template Each<LaneWords> words;
    typename Team::template Each<typename Code::LaneHead> heads;
    team.each([&](std::uint32_t lane) {
      heads[lane] = kScales ? Code::head_of(lane, code, segment) : typename Code::LaneHead{0, code[0]};
      code_in<format>(lane, room, Code::room_bytes(segment), body);
    });
    team.each([&](std::uint32_t lane) {
      std::uint32_t word[words_of(format)];
      code_of_lane<format>(lane, room, bytes_before<format>(body), word);
      if constexpr (kScales) {
        decode_packed<Group>(word, heads[lane].scale, heads[lane].top, words[lane].word);
      } else {
        decode_fp8_packed(word, heads[lane].top, words[lane].word);
      }
    });
    team.each([&](std::uint32_t lane) { lane_words_out<kLaneWords>(lane, room, words[lane].word); });
    team.each([&](std::uint32_t lane) {
      if (job.place.tensor != nullptr) tensor_out<kind>(lane, room, job, segment);
    });
  }

 private:
  DIT_SHARED static std::uint32_t header_bytes(const Segment& segment) {
    return kScales ? Code::header_bytes(segment) : 1;
  }
};

}  // namespace
}  // namespace dit
