/// @file
/// One all-to-all of one rank as the kernel gets it: an argument of fixed size, which a CUDA graph records.
/// Pure, host and device.
#pragma once

#include "device/region.hpp"
#include "device/rows.hpp"

namespace tapa::device {

/// What a rank sends to one other and receives from it, bytes that lie together.
struct Block {
  static constexpr int kWords = kPlainReadyWords;
  const std::byte* send;
  std::byte* receive;
  Word send_bytes;
  Word receive_bytes;
};

/// The same with strides.
struct StridedBlock {
  static constexpr int kWords = kReadyWords;
  Rows send;
  Rows receive;
  Word send_bytes;
  Word receive_bytes;
};

/// What the receiver of a block says; `target`: packed.
TAPA_HOST_DEVICE constexpr Ready ready_of(const Block& block, Word target) {
  return {target, {block.receive_bytes, 1, 0, 1, 0}};
}
TAPA_HOST_DEVICE constexpr Ready ready_of(const StridedBlock& block, Word target) {
  return {target, strides_of(block.receive)};
}

/// What two ranks do not agree on.
struct Disagreement {
  Word call;      ///< its number; 0: none
  Word sent;      ///< bytes of the block; kUnknown where the rank that notes it cannot know
  Word expected;  ///< bytes that the receiver takes it to have
};
inline constexpr Word kUnknown = ~Word{0};
/// Length of the blocks of a call in which the caller's kernels store: one that no block has.
inline constexpr Word kAnyBytes = (Word{1} << (2 * kPayloadBits)) - 1;

/// What a rank leaves for its host when a call cannot be carried out: in memory of the host. Entries are
/// written without atomics, each by any team that waited for this peer.
struct Failure {
  Word missing[kMaxRanks];       ///< number of the call that the rank did not arrive at; 0: it did
  Word parted[kMaxRanks];        ///< ... because it has had an error, or freed the communicator
  Word elsewhere[kMaxRanks];     ///< ... in which it makes another call, or receives at another offset of a
                                 ///< symmetric window
  Word no_window[kMaxRanks];     ///< number of the call in which it asked for a window that is gone
  Disagreement to[kMaxRanks];    ///< on this rank's block for it
  Disagreement from[kMaxRanks];  ///< on its block for this rank
};

/// What calls of all kinds say.
struct CallHead {
  int rank;
  int channels;  ///< teams for each rank of this launch
  Region region;
  Word timeout;  ///< nanoseconds; 0: none
  std::byte* regions[kMaxRanks];
  std::byte* const* windows;  ///< windows[window * kMaxRanks + rank]: that rank's, as this rank sees it
  Failure* failure;
  Word targets[kMaxRanks];  ///< packed Target of the block from each rank
  Word expected;            ///< by copy engines: packed Target of this rank's block at every other
  Word copied;              ///< likewise: bytes of each block that they move; teams store the rest
};

template <class BlockType>
struct CallOf : CallHead {
  BlockType blocks[kMaxRanks];
};
using Call = CallOf<Block>;
using StridedCall = CallOf<StridedBlock>;
static_assert(sizeof(StridedCall) <= 4096, "CUDA takes no longer arguments everywhere");

/// What a launch carries out of a call. `copies` and `join` are beside each other.
enum class Part { all, begin, copies, join, end };

/// Channels of a call: what its longest way needs.
template <class BlockType>
constexpr int channels_of_call(const CallOf<BlockType>& call) {
  int channels = 1;
  for (int peer = 0; peer < call.region.size; ++peer) {
    const int sent = channels_of(call.blocks[peer].send_bytes, call.region.tuning);
    const int received = channels_of(call.blocks[peer].receive_bytes, call.region.tuning);
    if (sent > channels) channels = sent;
    if (received > channels) channels = received;
  }
  return channels;
}

/// Channels of the part beside copy engines: the first waits for them, the others store what they leave. No
/// more than the region has words for: those behind belong to other ranks.
TAPA_HOST_DEVICE constexpr int channels_beside_copies(const Region& region) {
  constexpr int kTeams = 34;
  const int wanted = kTeams / region.size > 2 ? kTeams / region.size : 2;
  return wanted < region.channels() ? wanted : region.channels();
}
/// Teams that are to leave before a call is done: those of the launch, or of the two beside each other.
template <class BlockType>
TAPA_HOST_DEVICE constexpr int teams_that_end(const CallOf<BlockType>& call, Part part) {
  const bool beside = part == Part::copies || part == Part::join;
  return call.region.size * (beside ? channels_beside_copies(call.region) + 1 : call.channels);
}
/// Bytes of a block that copy engines move where threads are to store the last `stored` ones: all of it where
/// no channel is left for that.
constexpr Word copied_bytes(Word bytes, Word stored, const Region& region) {
  return channels_beside_copies(region) < 2 ? bytes : bytes - least(bytes, stored);
}

/// Teams are numbered channel by channel: with as many teams at work as there are ranks, some channel has all
/// its teams on all ranks, and gets done.
struct TeamPlace {
  int peer;
  int channel;
};
TAPA_HOST_DEVICE constexpr TeamPlace team_place(int team, int rank, int size) {
  return {(rank + team % size) % size, team / size};
}

}  // namespace tapa::device
