/// @file
/// The words that ranks write into each other's memory, and the numbers in them. Pure, host and device.
///
/// Calls of a communicator are numbered from 1 on, by a counter in device memory, so that a call recorded in
/// a CUDA graph gets a new number in each replay. Every word carries that number: nothing is ever reset.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TAPA_HOST_DEVICE __host__ __device__
#define TAPA_UNROLL _Pragma("unroll")
#define TAPA_NO_UNROLL _Pragma("unroll 1")
#define TAPA_NO_INLINE __noinline__
#else
#define TAPA_HOST_DEVICE
#define TAPA_UNROLL
#define TAPA_NO_UNROLL
#define TAPA_NO_INLINE
#endif

namespace tapa::device {

using Word = std::uint64_t;

/// Ranks of one node that an exchange can join: what is said of each travels as an argument of the kernel.
inline constexpr int kMaxRanks = 16;

// --- Progress: how far a channel is in a call. Grows from call to call, so that "at least" is a safe test.

inline constexpr int kChunkBits = 20;
/// Said instead of a number of chunks: the sender has other bytes than the receiver expects, and sends none.
inline constexpr Word kRefused = (Word{1} << kChunkBits) - 1;
inline constexpr Word kMaxChunks = kRefused - 1;

/// `chunks` of call `sequence` are done. 44 bits of calls: at 5 us each, more than two years.
TAPA_HOST_DEVICE constexpr Word progress(Word sequence, Word chunks) {
  return sequence << kChunkBits | chunks;
}

// --- Teardowns: what a rank says to each other of its node when it frees the communicator, or can make no
// more calls. Of no call: nothing follows.

enum class Teardown : Word {
  none,   ///< it has not come to that
  well,   ///< it has seen no error, and waits for the others
  failed  ///< it has, comes to no further call, and waits for nobody
};

// --- Ready: what a receiver says of a block that it expects. Words of 21 bits each, with the call's number,
// so that they need no order among them and no fence. See ready.hpp for what they say.

/// A place in a receiver's memory: a registered window and an offset, or its staging memory.
struct Target {
  static constexpr Word kStaging = 0x7fff;              ///< the window number that stands for staging
  static constexpr Word kStores = (Word{1} << 48) - 1;  ///< the offset that stands for stores of the caller
  Word window = kStaging;                               ///< 15 bits
  Word offset = 0;                                      ///< bytes, 48 bits
};

TAPA_HOST_DEVICE constexpr Word pack(Target target) {
  return target.window << 48 | target.offset;
}
TAPA_HOST_DEVICE constexpr Target unpack(Word packed) {
  return {packed >> 48, packed & ((Word{1} << 48) - 1)};
}

inline constexpr int kPayloadBits = 21;
inline constexpr Word kPayloadMask = (Word{1} << kPayloadBits) - 1;

TAPA_HOST_DEVICE constexpr Word ready_word(Word sequence, Word payload) {
  return sequence << kPayloadBits | payload;
}
/// Whether a word is of this call, by the 43 bits of its number that a word can hold.
TAPA_HOST_DEVICE constexpr bool is_ready(Word word, Word sequence) {
  return word >> kPayloadBits == (sequence & (~Word{0} >> kPayloadBits));
}
TAPA_HOST_DEVICE constexpr Word ready_payload(Word word) {
  return word & kPayloadMask;
}

// --- Lines: 8 bytes of data, each half with a flag beside it: the call's number and a digest of the block's
// length. Halves are written and read whole.

inline constexpr Word kLineData = 8;

struct alignas(16) Line {
  std::uint32_t low, low_flag, high, high_flag;
};

/// A block of no bytes is a line too: that every rank hears from every other in each call is what makes two
/// mailboxes enough.
TAPA_HOST_DEVICE constexpr Word lines_of(Word bytes) {
  return bytes == 0 ? 1 : (bytes + kLineData - 1) / kLineData;
}

inline constexpr int kFlagSequenceBits = 22;

/// The flag of the lines of a block of `bytes` bytes: of lengths that differ, all but one in a thousand have
/// other flags, so that a receiver who expects another length does not take them.
TAPA_HOST_DEVICE constexpr std::uint32_t line_flag(Word sequence, Word bytes) {
  const std::uint32_t digest = static_cast<std::uint32_t>(bytes) * 0x9e3779b1U >> kFlagSequenceBits;
  const auto number = static_cast<std::uint32_t>(sequence & ((Word{1} << kFlagSequenceBits) - 1));
  return digest << kFlagSequenceBits | number;
}
/// Whether a flag is of this call, whatever the length.
TAPA_HOST_DEVICE constexpr bool is_of_call(std::uint32_t flag, Word sequence) {
  return ((flag ^ static_cast<std::uint32_t>(sequence)) & ((1U << kFlagSequenceBits) - 1)) == 0;
}
/// The flag of lines that a call renews and does not send. Nobody waits for it: in this mailbox calls have
/// the other parity.
TAPA_HOST_DEVICE constexpr std::uint32_t renewed_flag(Word sequence) {
  return line_flag(sequence - 1, 0);
}
/// A rank that writes call n has heard of call n-1 from the reader, who was done with call n-2 before it.
TAPA_HOST_DEVICE constexpr int mailbox_of(Word sequence) {
  return static_cast<int>(sequence & 1);
}
/// Whether a call writes its mailbox to the end. A line that is rarely used would else keep a flag until its
/// bits have come round. `period`: a power of two, at most a half of what they count.
TAPA_HOST_DEVICE constexpr bool renews_mailbox(Word sequence, Word period) {
  return sequence >= period && (sequence & (period - 1)) < 2;
}

}  // namespace tapa::device
