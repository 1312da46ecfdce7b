/// @file
/// Copies by a team of lanes (the threads of a block), in the widest units that both addresses allow. Host
/// and device.
///
/// A Team has: lane(), lanes(), load<Unit>(address), store<Unit>(address, value), and the type Wide of 16
/// bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/choice.hpp"

namespace tapa::device {

/// Units of a lane whose loads are under way before its first store.
inline constexpr int kBatch = 8;

/// Copies the batch of a lane that begins at unit `first`; `all`: none of it is behind `count`.
template <class Unit, bool all, class Team>
TAPA_HOST_DEVICE inline void copy_batch(Team& team, std::byte* to, const std::byte* from, Word first,
                                        Word count) {
  const Word lanes = static_cast<Word>(team.lanes());
  Unit held[kBatch];
  TAPA_UNROLL
  for (int b = 0; b < kBatch; ++b) {
    const Word unit = first + static_cast<Word>(b) * lanes;
    if (all || unit < count) held[b] = team.template load<Unit>(from + unit * sizeof(Unit));
  }
  TAPA_UNROLL
  for (int b = 0; b < kBatch; ++b) {
    const Word unit = first + static_cast<Word>(b) * lanes;
    if (all || unit < count) team.template store<Unit>(to + unit * sizeof(Unit), held[b]);
  }
}

/// Copies `count` units. A function of its own, as copy_bytes(): inlined at each use, registers spill.
template <class Unit, class Team>
TAPA_HOST_DEVICE TAPA_NO_INLINE void copy_units(Team& team, std::byte* to, const std::byte* from,
                                                Word count) {
  const Word step = static_cast<Word>(team.lanes()) * kBatch;
  Word begin = 0;
  TAPA_NO_UNROLL
  for (; begin + step <= count; begin += step) {
    copy_batch<Unit, true>(team, to, from, begin + static_cast<Word>(team.lane()), count);
  }
  if (begin < count) copy_batch<Unit, false>(team, to, from, begin + static_cast<Word>(team.lane()), count);
}

/// Copies in `Unit`s where addresses have the same remainder, with the bytes before and behind one by one.
template <class Unit, class Team>
TAPA_HOST_DEVICE inline void copy_aligned(Team& team, std::byte* to, const std::byte* from, Word bytes) {
  const Word before = least(bytes, (Word{0} - reinterpret_cast<std::uintptr_t>(to)) % sizeof(Unit));
  const Word units = (bytes - before) / sizeof(Unit);
  const Word done = before + units * sizeof(Unit);
  if (before != 0) copy_units<std::uint8_t>(team, to, from, before);
  copy_units<Unit>(team, to + before, from + before, units);
  if (done != bytes) copy_units<std::uint8_t>(team, to + done, from + done, bytes - done);
}

/// Copies `bytes` bytes that do not overlap. Not finished for other lanes before the team's next barrier.
template <class Team>
TAPA_HOST_DEVICE TAPA_NO_INLINE void copy_bytes(Team& team, std::byte* to, const std::byte* from,
                                                Word bytes) {
  const std::uintptr_t differ = reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (differ % 16 == 0) {
    copy_aligned<typename Team::Wide>(team, to, from, bytes);
  } else if (differ % 8 == 0) {
    copy_aligned<std::uint64_t>(team, to, from, bytes);
  } else if (differ % 4 == 0) {
    copy_aligned<std::uint32_t>(team, to, from, bytes);
  } else if (differ % 2 == 0) {
    copy_aligned<std::uint16_t>(team, to, from, bytes);
  } else {
    copy_units<std::uint8_t>(team, to, from, bytes);
  }
}

/// The up to 8 bytes of line `line` of a block; zeros behind its end.
template <class Team>
TAPA_HOST_DEVICE inline std::uint64_t load_line_data(Team& team, const std::byte* from, Word bytes,
                                                     Word line) {
  const Word at = line * kLineData;
  if (at + kLineData <= bytes && reinterpret_cast<std::uintptr_t>(from) % kLineData == 0) {
    return team.template load<std::uint64_t>(from + at);
  }
  std::uint64_t data = 0;
  for (Word b = 0; b < kLineData && at + b < bytes; ++b) {
    data |= static_cast<std::uint64_t>(team.template load<std::uint8_t>(from + at + b)) << (8 * b);
  }
  return data;
}

template <class Team>
TAPA_HOST_DEVICE inline void store_line_data(Team& team, std::byte* to, Word bytes, Word line,
                                             std::uint64_t data) {
  const Word at = line * kLineData;
  if (at + kLineData <= bytes && reinterpret_cast<std::uintptr_t>(to) % kLineData == 0) {
    team.template store<std::uint64_t>(to + at, data);
    return;
  }
  for (Word b = 0; b < kLineData && at + b < bytes; ++b) {
    team.template store<std::uint8_t>(to + at + b, static_cast<std::uint8_t>(data >> (8 * b)));
  }
}

}  // namespace tapa::device
