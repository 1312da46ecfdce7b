/// @file
/// What the protocol does with a block, for each kind of blocks: says what it expects, loads and stores
/// lines, copies parts of it. Host and device.
#pragma once

#include "device/call.hpp"
#include "device/copy_rows.hpp"

namespace tapa::device {

// --- Bytes that lie together.

/// Copies a part of a block to where its receiver wants it: `window` is the place of its first byte.
template <class Team>
TAPA_HOST_DEVICE inline void push(Team& team, std::byte* window, const Ready&, const Block& block,
                                  Slice slice) {
  copy_bytes(team, window + slice.begin, block.send + slice.begin, slice.bytes);
}
/// To and from memory whose bytes lie together.
template <class Team>
TAPA_HOST_DEVICE inline void gather(Team& team, std::byte* to, const Block& block, Slice slice) {
  copy_bytes(team, to, block.send + slice.begin, slice.bytes);
}
template <class Team>
TAPA_HOST_DEVICE inline void scatter(Team& team, const Block& block, Slice slice, const std::byte* from) {
  copy_bytes(team, block.receive + slice.begin, from, slice.bytes);
}
template <class Team>
TAPA_HOST_DEVICE inline void move_own(Team& team, const Block& block, Slice slice) {
  copy_bytes(team, block.receive + slice.begin, block.send + slice.begin, slice.bytes);
}

// --- Strided ones.

TAPA_HOST_DEVICE constexpr std::uint32_t begin_of(Slice slice) {
  return static_cast<std::uint32_t>(slice.begin);
}
template <class Team>
TAPA_HOST_DEVICE inline void push(Team& team, std::byte* window, const Ready& ready,
                                  const StridedBlock& block, Slice slice) {
  copy_rows(team, rows_at(window, ready.strides), begin_of(slice), block.send, begin_of(slice), slice.bytes);
}
template <class Team>
TAPA_HOST_DEVICE inline void gather(Team& team, std::byte* to, const StridedBlock& block, Slice slice) {
  copy_rows(team, together(to), 0, block.send, begin_of(slice), slice.bytes);
}
template <class Team>
TAPA_HOST_DEVICE inline void scatter(Team& team, const StridedBlock& block, Slice slice, std::byte* from) {
  copy_rows(team, block.receive, begin_of(slice), together(from), 0, slice.bytes);
}
template <class Team>
TAPA_HOST_DEVICE inline void move_own(Team& team, const StridedBlock& block, Slice slice) {
  copy_rows(team, block.receive, begin_of(slice), block.send, begin_of(slice), slice.bytes);
}

}  // namespace tapa::device
