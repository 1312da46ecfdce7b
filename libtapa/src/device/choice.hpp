/// @file
/// How a block travels, by its size alone, so that sender and receiver come to the same choice. Pure, host
/// and device.
///
/// What must be alike on all ranks: a Tuning (agreed when the communicator is made), and the size of each
/// block as its sender and its receiver give it. Where the receive buffers are need not be.
#pragma once

#include "device/words.hpp"

namespace tapa::device {

/// `lines`: flags in the data, no handshake. `bulk`: plain stores to where the receiver says, then a flag.
enum class Way { lines, bulk };

/// Sizes that decide. Agreed.
struct Tuning {
  Word line_limit = 512 << 10;  ///< bytes of the longest block that travels as lines
  Word line_share = 4 << 10;    ///< bytes of such a block for each channel
  Word bulk_share = 64 << 10;   ///< bytes of a longer block for each of its first channels
  Word wide_share = 1 << 20;    ///< bytes of it for each channel where it has all of them
  Word chunk = 256 << 10;       ///< bytes of a chunk of staging memory at most; a multiple of kGrain
  Word renew_period = 1 << 20;  ///< calls between renewals of the mailboxes; a power of two
  int line_channels = 16;       ///< channels of a block of lines at most
  int bulk_channels = 64;       ///< channels of a longer block at most
};
inline constexpr int kMostChannels = 64;   ///< of a block
inline constexpr int kFewestChannels = 8;  ///< of a long one, where many ranks share a GPU's multiprocessors

inline constexpr Word kGrain = 128;       ///< slices and chunks begin at multiples of it
inline constexpr Word kStagingSlots = 4;  ///< chunks of a channel that can be under way
inline constexpr Word kLeastChunk = 32 << 10;

TAPA_HOST_DEVICE constexpr Word least(Word a, Word b) {
  return a < b ? a : b;
}
TAPA_HOST_DEVICE constexpr Word most(Word a, Word b) {
  return a < b ? b : a;
}
TAPA_HOST_DEVICE constexpr Word divide_up(Word a, Word b) {
  return (a + b - 1) / b;
}
TAPA_HOST_DEVICE constexpr Word round_up(Word a, Word grain) {
  return divide_up(a, grain) * grain;
}

/// Channels with which all teams of a call find place on a GPU of so many multiprocessors at once, each on
/// one of its own: some are left for others. Those of a second communicator need not: see team_place().
constexpr int bulk_channels_on(int multiprocessors, int ranks) {
  constexpr int kLeft = 4;
  const int fitting = (multiprocessors - kLeft) / ranks;
  return fitting < kFewestChannels ? kFewestChannels : fitting > kMostChannels ? kMostChannels : fitting;
}

TAPA_HOST_DEVICE constexpr Way way_of(Word bytes, const Tuning& tuning) {
  return bytes <= tuning.line_limit ? Way::lines : Way::bulk;
}

/// Teams (thread blocks) of each side that share a block: from 1 on. Links are full with fewer than all, but
/// for staging of very long blocks; and more take longer from kernels beside them.
TAPA_HOST_DEVICE constexpr int channels_of(Word bytes, const Tuning& tuning) {
  if (way_of(bytes, tuning) == Way::lines) {
    const Word wanted = divide_up(most(bytes, 1), tuning.line_share);
    return static_cast<int>(least(wanted, static_cast<Word>(tuning.line_channels)));
  }
  const Word all = static_cast<Word>(tuning.bulk_channels);
  const Word few = most(divide_up(3 * all, 4), least(all, kFewestChannels));
  const Word first = least(divide_up(bytes, tuning.bulk_share), few);
  return static_cast<int>(most(first, least(divide_up(bytes, tuning.wide_share), all)));
}

/// The bytes of a block that one channel moves. Slices cover the block, in order; the last ones may be empty.
struct Slice {
  Word begin = 0;
  Word bytes = 0;
};
TAPA_HOST_DEVICE constexpr Slice slice_of(Word bytes, int channel, int channels) {
  const Word share = round_up(divide_up(bytes, static_cast<Word>(channels)), kGrain);
  const Word begin = least(bytes, share * static_cast<Word>(channel));
  return {begin, least(share, bytes - begin)};
}

/// Bytes of the chunks in which a slice passes staging memory: small enough that the copy out of one overlaps
/// the next, and few enough to be counted.
TAPA_HOST_DEVICE constexpr Word chunk_of(Word slice, const Tuning& tuning) {
  return least(most(round_up(divide_up(slice, kStagingSlots), kGrain), kLeastChunk), tuning.chunk);
}
TAPA_HOST_DEVICE constexpr Word chunks_of(Word slice, const Tuning& tuning) {
  return divide_up(slice, chunk_of(slice, tuning));
}
/// Bytes of the longest block whose chunks can be counted.
TAPA_HOST_DEVICE constexpr Word longest_block(const Tuning& tuning) {
  return kMaxChunks * tuning.chunk;
}

}  // namespace tapa::device
