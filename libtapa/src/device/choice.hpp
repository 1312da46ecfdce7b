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
  Word bulk_share = 64 << 10;   ///< bytes of a longer block for each channel
  Word chunk = 128 << 10;       ///< bytes of a chunk of staging memory at most; a multiple of kGrain
  Word renew_period = 1 << 20;  ///< calls between renewals of the mailboxes; a power of two
  int line_channels = 16;       ///< channels of a block of lines at most
  int bulk_channels = 48;       ///< channels of a longer block at most
};

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

TAPA_HOST_DEVICE constexpr Way way_of(Word bytes, const Tuning& tuning) {
  return bytes <= tuning.line_limit ? Way::lines : Way::bulk;
}

/// Teams (thread blocks) of each side that share a block: from 1 on.
TAPA_HOST_DEVICE constexpr int channels_of(Word bytes, const Tuning& tuning) {
  const bool lines = way_of(bytes, tuning) == Way::lines;
  const Word wanted = divide_up(most(bytes, 1), lines ? tuning.line_share : tuning.bulk_share);
  return static_cast<int>(
      least(wanted, static_cast<Word>(lines ? tuning.line_channels : tuning.bulk_channels)));
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
