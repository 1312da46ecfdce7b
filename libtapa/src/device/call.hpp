/// @file
/// One all-to-all of one rank as the kernel gets it: an argument of fixed size, which a CUDA graph records.
/// Pure, host and device.
#pragma once

#include "device/region.hpp"

namespace tapa::device {

/// What a rank sends to one other and receives from it.
struct Block {
  const std::byte* send;
  std::byte* receive;
  Word send_bytes;
  Word receive_bytes;
};

/// What a rank leaves for its host when a peer did not arrive: in memory of the host. Entries are written
/// without atomics, each by any team that waited for this peer.
struct Failure {
  Word missing[kMaxRanks];    ///< number of the call that the rank did not arrive at; 0: it did
  Word elsewhere[kMaxRanks];  ///< ... in which it receives at another offset, though the window is symmetric
  Word no_window[kMaxRanks];  ///< number of the call in which it asked for a window that is gone
};

struct Call {
  int rank;
  int channels;  ///< teams for each rank of this launch
  Region region;
  Word timeout;  ///< nanoseconds; 0: none
  std::byte* regions[kMaxRanks];
  std::byte* const* windows;  ///< windows[window * kMaxRanks + rank]: that rank's, as this rank sees it
  Failure* failure;
  Word targets[kMaxRanks];  ///< packed Target of the block from each rank
  Word expected;            ///< by copy engines: packed Target of this rank's block at every other
  Block blocks[kMaxRanks];
};

/// What a launch carries out of a call.
enum class Part { all, begin, end };

/// Channels of a call: what its longest way needs.
constexpr int channels_of_call(const Call& call) {
  int channels = 1;
  for (int peer = 0; peer < call.region.size; ++peer) {
    const int sent = channels_of(call.blocks[peer].send_bytes, call.region.tuning);
    const int received = channels_of(call.blocks[peer].receive_bytes, call.region.tuning);
    if (sent > channels) channels = sent;
    if (received > channels) channels = received;
  }
  return channels;
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
