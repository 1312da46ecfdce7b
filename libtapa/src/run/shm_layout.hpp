/// @file
/// How a buffer of the shared-memory exchange is laid out: the header, the table where blocks have different
/// sizes, the blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "transport/shm_buffers.hpp"

namespace tapa::shm_layout {

constexpr std::size_t kLine = 64;
// Equal blocks of this many bytes in all follow the header at once, where `place` is not needed: with the
// header they fill one pair of lines.
constexpr std::size_t kBesideHeaderAt = offsetof(BufferHeader, place);
constexpr std::size_t kBesideHeader = 2 * kLine - kBesideHeaderAt;

inline std::size_t up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Blocks up to this size lie in their entry of the table: its reader fetches one line instead of two.
constexpr std::size_t kInEntry = 32;

/// Room of a block in a buffer, beside the table: long ones begin on lines, short ones share them.
inline std::size_t room_of(std::size_t bytes) {
  return bytes <= kInEntry ? 0 : up(bytes, bytes < kLine ? 16 : kLine);
}

/// Bytes of the blocks of one rank that fit into a buffer without a table.
constexpr std::size_t kUniformRoom = ShmBuffers::kBufferBytes - kLine;

inline std::size_t uniform_at(std::size_t total) {
  return total <= kBesideHeader ? kBesideHeaderAt : kLine;
}

/// Bytes of a uniform block that travel in one round: long ones go through slots part by part.
inline std::size_t uniform_piece(const ShmBuffers& buffers, std::size_t bytes) {
  if (buffers.members() > 1 && bytes >= ShmBuffers::kSlotFrom) return std::min(bytes, buffers.slot_bytes());
  const std::size_t others = std::max<std::size_t>(1, buffers.members() - 1);
  if (others * bytes <= kUniformRoom) return bytes;
  return std::max<std::size_t>(1, kUniformRoom / others / kLine * kLine);
}

/// A member's place among the others of `self`.
inline std::size_t place_of(std::size_t member, std::size_t self) {
  return member < self ? member : member - 1;
}

/// Of BufferHeader::rounds: its owner has no memory for its blocks; and what it sends is overwritten
/// meanwhile.
constexpr std::uint32_t kGivesUp = std::uint32_t{1} << 31;
constexpr std::uint32_t kOverwrites = std::uint32_t{1} << 30;

/// BlockEntry::whole of a block that its sender could not pack.
constexpr std::uint64_t kNotPacked = std::numeric_limits<std::uint64_t>::max();
/// And of a block without bytes of which its receiver is told.
constexpr std::uint64_t kEmpty = kNotPacked - 1;

/// Where one member finds its block, or the part of it that travels in this round.
struct BlockEntry {
  std::uint64_t whole;  // bytes of the block
  std::uint64_t bytes;  // of these here
  BlockPlace place;
  std::array<std::byte, kInEntry> block;  // when it is that short
};
static_assert(sizeof(BlockEntry) == kLine);

/// Bytes of the header and the table of a buffer.
constexpr std::size_t table_bytes(std::size_t members) {
  return kLine + members * kLine;
}

/// Of BufferHeader::filled.
inline std::uint64_t bit_of(std::size_t member) {
  return std::uint64_t{1} << member % 64;
}

/// What the table of a buffer has for a member.
template <typename Buffer>
auto& entry_of(Buffer* buffer, std::size_t member) {
  using Entry = std::conditional_t<std::is_const_v<Buffer>, const BlockEntry, BlockEntry>;
  return reinterpret_cast<Entry*>(buffer + kLine)[member];
}

}  // namespace tapa::shm_layout
