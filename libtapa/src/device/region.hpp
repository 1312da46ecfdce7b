/// @file
/// What lies where in the memory that each rank gives to all others. Every rank's region has the same layout.
/// Pure, host and device.
///
///     local state | teardowns | channel words | mailboxes | staging
///
/// All but the local state is written by peers, each in its own part, and read by the owner.
#pragma once

#include <cstddef>

#include "device/choice.hpp"
#include "device/ready.hpp"

namespace tapa::device {

/// What only the owner touches.
struct alignas(128) LocalState {
  Word sequence;           ///< number of the call that runs, or of the next one
  std::uint32_t finished;  ///< teams that are done with it
  std::uint32_t aborted;   ///< not 0 once a peer did not arrive: later calls do nothing
  Word copied[kMaxRanks];  ///< what copy engines write into each peer's `arrived` behind their copy to it
};

/// What each peer says when it frees the communicator. Each writes its own entry.
struct alignas(128) Teardowns {
  Word of[kMaxRanks];  ///< a Teardown
};

/// What one peer says on one channel. Written by the peer alone.
struct alignas(128) ChannelWords {
  Word ready[kReadyWords];  ///< where and how it wants the data of this rank
  Word arrived;             ///< progress of its data on the way to this rank
  Word consumed;            ///< progress of its copies out of staging, of this rank's data
};

/// Sizes and places in a region of `size` ranks.
struct Region {
  int size = 0;
  Tuning tuning;

  /// Channels that the region has words for.
  TAPA_HOST_DEVICE constexpr int channels() const {
    return tuning.line_channels > tuning.bulk_channels ? tuning.line_channels : tuning.bulk_channels;
  }
  TAPA_HOST_DEVICE constexpr Word mailbox_lines() const { return lines_of(tuning.line_limit); }

  TAPA_HOST_DEVICE constexpr Word words_at(int peer, int channel) const {
    return sizeof(LocalState) + sizeof(Teardowns) + sizeof(ChannelWords) * pair_index(peer, channel);
  }
  TAPA_HOST_DEVICE constexpr Word mailbox_at(int peer, int mailbox) const {
    const Word index = static_cast<Word>(peer) * 2 + static_cast<Word>(mailbox);
    return round_up(words_at(size, 0), kGrain) + index * mailbox_bytes();
  }
  /// `place`: of the peer among the owner's others, see staging_place().
  TAPA_HOST_DEVICE constexpr Word staging_at(int place, int channel, Word slot) const {
    const Word index =
        (static_cast<Word>(place) * static_cast<Word>(tuning.bulk_channels) + static_cast<Word>(channel)) *
            kStagingSlots +
        slot;
    return mailbox_at(size, 0) + index * tuning.chunk;
  }
  TAPA_HOST_DEVICE constexpr Word bytes() const { return staging_at(size - 1, 0, 0); }

 private:
  TAPA_HOST_DEVICE constexpr Word pair_index(int peer, int channel) const {
    return static_cast<Word>(peer) * static_cast<Word>(channels()) + static_cast<Word>(channel);
  }
  TAPA_HOST_DEVICE constexpr Word mailbox_bytes() const {
    return round_up(mailbox_lines() * sizeof(Line), kGrain);
  }
};

/// Which part of an owner's staging a peer writes: a rank sends itself nothing that way.
TAPA_HOST_DEVICE constexpr int staging_place(int owner, int peer) {
  return peer < owner ? peer : peer - 1;
}

/// The staging slot of a chunk.
TAPA_HOST_DEVICE constexpr Word slot_of(Word chunk) {
  return chunk % kStagingSlots;
}

/// The objects in a region that begins at `base`.
class RegionView {
 public:
  TAPA_HOST_DEVICE RegionView(std::byte* base, const Region& region) : base_(base), region_(region) {}

  TAPA_HOST_DEVICE LocalState& local() const { return *at<LocalState>(0); }
  TAPA_HOST_DEVICE Teardowns& teardowns() const { return *at<Teardowns>(sizeof(LocalState)); }
  /// What `peer` writes on a channel.
  TAPA_HOST_DEVICE ChannelWords& words(int peer, int channel) const {
    return *at<ChannelWords>(region_.words_at(peer, channel));
  }
  /// Where `peer` writes lines.
  TAPA_HOST_DEVICE Line* mailbox(int peer, int mailbox) const {
    return at<Line>(region_.mailbox_at(peer, mailbox));
  }
  /// Where `peer` writes a chunk for the owner.
  TAPA_HOST_DEVICE std::byte* staging(int owner, int peer, int channel, Word chunk) const {
    return base_ + region_.staging_at(staging_place(owner, peer), channel, slot_of(chunk));
  }

 private:
  template <class Type>
  TAPA_HOST_DEVICE Type* at(Word offset) const {
    return reinterpret_cast<Type*>(base_ + offset);
  }

  std::byte* base_;
  const Region& region_;
};

}  // namespace tapa::device
