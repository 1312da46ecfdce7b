/// @file
/// Copies between strided blocks by a team of lanes. Host and device. See copy.hpp for what a Team has.
#pragma once

#include "device/copy.hpp"
#include "device/rows.hpp"

namespace tapa::device {

template <class Unit, bool all, class Team>
TAPA_HOST_DEVICE inline void copy_rows_batch(Team& team, const Rows& to, std::uint32_t to_at,
                                             const Rows& from, std::uint32_t from_at, Word first,
                                             Word count) {
  const Word lanes = static_cast<Word>(team.lanes());
  Unit held[kBatch];
  TAPA_UNROLL
  for (int b = 0; b < kBatch; ++b) {
    const Word unit = first + static_cast<Word>(b) * lanes;
    const auto position = from_at + static_cast<std::uint32_t>(unit * sizeof(Unit));
    if (all || unit < count) held[b] = team.template load<Unit>(from.at(position));
  }
  TAPA_UNROLL
  for (int b = 0; b < kBatch; ++b) {
    const Word unit = first + static_cast<Word>(b) * lanes;
    const auto position = to_at + static_cast<std::uint32_t>(unit * sizeof(Unit));
    if (all || unit < count) team.template store<Unit>(to.at(position), held[b]);
  }
}

/// Copies `count` units. A function of its own, as copy_units().
template <class Unit, class Team>
TAPA_HOST_DEVICE TAPA_NO_INLINE void copy_rows_units(Team& team, Rows to, std::uint32_t to_at, Rows from,
                                                     std::uint32_t from_at, Word count) {
  const Word step = static_cast<Word>(team.lanes()) * kBatch;
  const Word lane = static_cast<Word>(team.lane());
  Word begin = 0;
  TAPA_NO_UNROLL
  for (; begin + step <= count; begin += step) {
    copy_rows_batch<Unit, true>(team, to, to_at, from, from_at, begin + lane, count);
  }
  if (begin < count) copy_rows_batch<Unit, false>(team, to, to_at, from, from_at, begin + lane, count);
}

/// Copies `bytes` bytes that do not overlap, from byte `from_at` of one strided block to byte `to_at` of
/// another, in units that fit all rows. Not finished for other lanes before the team's next barrier. Blocks
/// by value: those of a call are a kernel's argument, whose first look through a pointer takes the better
/// part of a microsecond.
template <class Team>
TAPA_HOST_DEVICE TAPA_NO_INLINE void copy_rows(Team& team, Rows to, std::uint32_t to_at, Rows from,
                                               std::uint32_t from_at, Word bytes) {
  const Word ragged = to.raggedness() | from.raggedness() | to_at | from_at | bytes;
  if (ragged % 16 == 0) {
    copy_rows_units<typename Team::Wide>(team, to, to_at, from, from_at, bytes / 16);
  } else if (to.lie_together() && from.lie_together()) {
    copy_bytes(team, to.base + to_at, from.base + from_at, bytes);
  } else if (ragged % 8 == 0) {
    copy_rows_units<std::uint64_t>(team, to, to_at, from, from_at, bytes / 8);
  } else if (ragged % 4 == 0) {
    copy_rows_units<std::uint32_t>(team, to, to_at, from, from_at, bytes / 4);
  } else if (ragged % 2 == 0) {
    copy_rows_units<std::uint16_t>(team, to, to_at, from, from_at, bytes / 2);
  } else {
    copy_rows_units<std::uint8_t>(team, to, to_at, from, from_at, bytes);
  }
}

/// As load_line_data() and store_line_data() of copy.hpp.
template <class Team>
TAPA_HOST_DEVICE inline std::uint64_t load_line_data(Team& team, const Rows& from, Word bytes, Word line) {
  const auto at = static_cast<std::uint32_t>(line * kLineData);
  if (at + kLineData <= bytes && from.raggedness() % kLineData == 0) {
    return team.template load<std::uint64_t>(from.at(at));
  }
  std::uint64_t data = 0;
  TAPA_NO_UNROLL
  for (std::uint32_t b = 0; b < kLineData && at + b < bytes; ++b) {
    data |= static_cast<std::uint64_t>(team.template load<std::uint8_t>(from.at(at + b))) << (8 * b);
  }
  return data;
}
template <class Team>
TAPA_HOST_DEVICE inline void store_line_data(Team& team, const Rows& to, Word bytes, Word line,
                                             std::uint64_t data) {
  const auto at = static_cast<std::uint32_t>(line * kLineData);
  if (at + kLineData <= bytes && to.raggedness() % kLineData == 0) {
    team.template store<std::uint64_t>(to.at(at), data);
    return;
  }
  TAPA_NO_UNROLL
  for (std::uint32_t b = 0; b < kLineData && at + b < bytes; ++b) {
    team.template store<std::uint8_t>(to.at(at + b), static_cast<std::uint8_t>(data >> (8 * b)));
  }
}

}  // namespace tapa::device
