/// @file
/// A team of the device codecs (wire/device/team.hpp) whose lanes run one after the other, from one each() to
/// the next. What lanes must not do, read in an each() what another one writes in it, is not seen here.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

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
  std::vector<Unit> room_ = std::vector<Unit>(room_of(LaneFormat::fp8, true) / sizeof(Unit),
                                              Unit{{0xdeadbeef, 0x7f812345, 0xffc00001, 0x00000001}});
};

/// What launch_codec does, here.
template <LaneFormat format, bool remembers>
void run_segments(bool encode, const CodeJob& job) {
  HostWarp team;
  for (std::uint32_t segment = 0; segment < job.segments; ++segment) {
    if (encode) {
      SegmentCodec<format, remembers>::encode(team, job, segment);
    } else {
      SegmentCodec<format, remembers>::decode(team, job, segment);
    }
  }
}

inline void run_on_host(bool encode, LaneFormat format, bool remembers, const CodeJob& job) {
  const auto run = [&]<LaneFormat of>() {
    return remembers ? run_segments<of, true>(encode, job) : run_segments<of, false>(encode, job);
  };
  switch (format) {
    case LaneFormat::fp32:
      return run.template operator()<LaneFormat::fp32>();
    case LaneFormat::bf16:
      return run.template operator()<LaneFormat::bf16>();
    case LaneFormat::fp16:
      return run.template operator()<LaneFormat::fp16>();
    case LaneFormat::fp8:
      return run.template operator()<LaneFormat::fp8>();
    case LaneFormat::int8:
      return run.template operator()<LaneFormat::int8>();
    case LaneFormat::int4:
      return run.template operator()<LaneFormat::int4>();
    case LaneFormat::int2:
      return run.template operator()<LaneFormat::int2>();
    case LaneFormat::int1:
      return run.template operator()<LaneFormat::int1>();
  }
}

}  // namespace dit
