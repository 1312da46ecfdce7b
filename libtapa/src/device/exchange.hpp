/// @file
/// The protocol of an all-to-all between ranks that can write into each other's memory. One team (a thread
/// block; in tests, threads of the host) of a rank and one team of its peer move one channel of both blocks
/// between them. Host and device.
///
/// Short blocks: the sender writes lines into its mailbox at the receiver, who polls them. No handshake.
/// Longer ones: the receiver says where its data should land. Into a window the sender stores the whole slice
/// and then a flag. Into staging it stores chunks, each with a flag; the receiver copies them out and says so
/// before a slot is used again. That receivers say where, and with which strides, means that no rank has to
/// know what others registered, or how their rows lie. A receiver says "ready" when its call has begun, so
/// all it did before is done and all slots are free.
#pragma once

#include "device/lines.hpp"
#include "device/moves.hpp"
#include "device/spoiling.hpp"
#include "device/waiting.hpp"

namespace tapa::device {

/// One channel between a rank and one peer, in one call.
template <class Team, class BlockType>
class Channel {
 public:
  TAPA_HOST_DEVICE Channel(Team& team, const CallOf<BlockType>& call, TeamPlace place, Word sequence)
      : team_(team),
        call_(call),
        block_(call.blocks[place.peer]),
        peer_(place.peer),
        channel_(place.channel),
        sequence_(sequence),
        mine_(call.regions[call.rank], call.region),
        theirs_(call.regions[place.peer], call.region) {}

  TAPA_HOST_DEVICE void run() {
    const Slice in = bulk_slice(block_.receive_bytes);
    const Slice out = bulk_slice(block_.send_bytes);
    if (in.bytes != 0) post_ready();
    const bool lines = way_of(block_.send_bytes, tuning()) == Way::lines;
    if (!lines) announce();
    renew_mailbox(lines ? lines_of(block_.send_bytes) : 1);
    if (lines) send_lines(team_, theirs_.mailbox(call_.rank, mailbox_of(sequence_)), block_, line_share());
    if (!move_bulk(out, in)) return;
    if (way_of(block_.receive_bytes, tuning()) == Way::lines) {
      receive_lines(team_, waiting(), mine_.mailbox(peer_, mailbox_of(sequence_)), block_, line_share());
    }
  }

  /// Waits until the peer can take its block at the place that `call.expected` says. Other engines store
  /// then.
  TAPA_HOST_DEVICE void begin_stores() {
    post_ready();
    announce();
    renew_mailbox(1);
    Ready ready;
    if (!await_ready(ready)) return;
    if (ready.target != call_.expected) {
      if (team_.lane() == 0) waiting().elsewhere();
    } else if (agree(ready) && team_.lane() == 0) {
      mine_.local().copied[peer_] = progress(sequence_, 1);
    }
  }
  /// Stores what copy engines leave of the block, on all channels but the first, which is theirs.
  TAPA_HOST_DEVICE void store_beside_copies() {
    if (channel_ == 0) return;
    const Slice share = slice_beside_copies(block_.send_bytes, channel_);
    if (share.bytes == 0) return;
    std::byte* window = nullptr;
    if (!find_place(unpack(call_.expected), window)) return;
    push(team_, window, Ready{}, block_, {call_.copied + share.begin, share.bytes});
    say(&ChannelWords::arrived, 1);
  }
  /// Waits for what comes on all channels, each lane for some: a team that takes little room, as that lasts.
  TAPA_HOST_DEVICE void await_copies() {
    const Word wanted = progress(sequence_, 1);
    bool failed = false;
    for (int channel = team_.lane(); channel < channels_beside_copies(call_.region);
         channel += team_.lanes()) {
      if (channel != 0 && slice_beside_copies(block_.receive_bytes, channel).bytes == 0) continue;
      const Word* const arrived = &mine_.words(peer_, channel).arrived;
      const Waiting<Team, BlockType> waiting{team_, call_, peer_, channel, sequence_};
      failed = failed || !waiting.spin([&] { return team_.acquire(arrived) >= wanted; });
    }
    (void)team_.any(failed);
  }
  /// Tells the peer that this rank has stored all it wants to, and waits for the same from there.
  TAPA_HOST_DEVICE void end_stores() {
    say(&ChannelWords::arrived, 1);
    (void)await(0);
  }

 private:
  TAPA_HOST_DEVICE const Tuning& tuning() const { return call_.region.tuning; }
  TAPA_HOST_DEVICE ChannelWords& words() const { return mine_.words(peer_, channel_); }
  TAPA_HOST_DEVICE Waiting<Team, BlockType> waiting() const {
    return {team_, call_, peer_, channel_, sequence_};
  }
  TAPA_HOST_DEVICE LineShare line_share() const { return {tuning(), channel_, sequence_}; }

  /// This channel's part of a block; empty when it travels as lines or needs fewer channels.
  TAPA_HOST_DEVICE Slice bulk_slice(Word bytes) const {
    if (way_of(bytes, tuning()) == Way::lines) return {};
    const int channels = channels_of(bytes, tuning());
    return channel_ < channels ? slice_of(bytes, channel_, channels) : Slice{};
  }

  /// A channel's part of what copy engines leave of a block.
  TAPA_HOST_DEVICE Slice slice_beside_copies(Word bytes, int channel) const {
    return slice_of(bytes - call_.copied, channel - 1, channels_beside_copies(call_.region) - 1);
  }

  /// Writes the first line of a block that goes another way, without data: a receiver who expects another
  /// length, and another way, sees it.
  TAPA_HOST_DEVICE void announce() {
    if (channel_ != 0 || team_.lane() != team_.lanes() - 1) return;
    team_.store_line(theirs_.mailbox(call_.rank, mailbox_of(sequence_)), 0,
                     line_flag(sequence_, block_.send_bytes));
  }

  /// Writes the flags of all lines but the first `used`, which this call sends, when it is time to.
  TAPA_HOST_DEVICE void renew_mailbox(Word used) {
    if (!renews_mailbox(sequence_, tuning().renew_period)) return;
    Line* const mailbox = theirs_.mailbox(call_.rank, mailbox_of(sequence_));
    const Word stride = static_cast<Word>(call_.channels) * static_cast<Word>(team_.lanes());
    const Word first = used + first_line(team_, channel_);
    for (Word line = first; line < call_.region.mailbox_lines(); line += stride) {
      team_.store_line(mailbox + line, 0, renewed_flag(sequence_));
    }
  }

  // --- Bulk.

  /// Sends and receives in turns, two chunks ahead, so that what a turn waits for was begun two turns ago. A
  /// chunk is sent when the peer has consumed the one four before it, which it does after it has sent more of
  /// its own: neither waits for ever.
  TAPA_HOST_DEVICE bool move_bulk(Slice out, Slice in) {
    constexpr Word kAhead = kStagingSlots / 2;
    std::byte* window = nullptr;
    Ready ready;
    if (out.bytes != 0 && !find_window(window, ready)) return false;
    const bool staged = unpack(call_.targets[peer_]).window == Target::kStaging;
    const Word sends = window != nullptr ? 1 : chunks_or_none(out.bytes);
    const Word receives = staged ? chunks_or_none(in.bytes) : least(in.bytes, 1);
    for (Word turn = 0; turn < most(sends, receives == 0 ? 0 : receives + kAhead); ++turn) {
      if (turn < sends) {
        if (window != nullptr) {
          push(team_, window, ready, block_, out);
          say(&ChannelWords::arrived, 1);
        } else if (!send_chunk(out, turn)) {
          return false;
        }
      }
      if (turn < kAhead || turn - kAhead >= receives) continue;
      const Word step = turn - kAhead;
      if (!(staged ? receive_chunk(in, step, receives) : await(step))) return false;
    }
    return true;
  }
  TAPA_HOST_DEVICE Word chunks_or_none(Word slice) const {
    return slice == 0 ? 0 : chunks_of(slice, tuning());
  }

  TAPA_HOST_DEVICE void post_ready() {
    const Ready ready = ready_of(block_, call_.targets[peer_]);
    for (int index = team_.lane(); index < BlockType::kWords; index += team_.lanes()) {
      team_.post(&theirs_.words(call_.rank, channel_).ready[index],
                 ready_word(sequence_, payload_of(ready, index)));
    }
  }

  /// Waits until the peer says how it wants its data, each lane for one word. What the peer's device did
  /// before its call, such as reading its buffer, comes before our stores.
  TAPA_HOST_DEVICE bool await_ready(Ready& ready) {
    bool failed = false;
    for (int index = team_.lane(); index < BlockType::kWords; index += team_.lanes()) {
      const Word* const word = &words().ready[index];
      failed = failed || !waiting().spin([&] { return is_ready(team_.acquire(word), sequence_); });
    }
    if (team_.any(failed)) return false;
    Word payloads[BlockType::kWords];
    TAPA_UNROLL
    for (int index = 0; index < BlockType::kWords; ++index) {
      payloads[index] = ready_payload(team_.relaxed(&words().ready[index]));
    }
    ready = ready_from(payloads);
    return true;
  }

  /// Whether the peer expects as many bytes as this rank sends; tells it when it does not.
  TAPA_HOST_DEVICE bool agree(const Ready& ready) {
    const Word expected = bytes_of(ready.strides);
    if (expected == block_.send_bytes) return true;
    if (team_.lane() == 0) waiting().disagree_to(expected);
    say(&ChannelWords::arrived, kRefused);
    return false;
  }

  /// `window`: the block's place in the peer's window, null for staging. False when the peer did not arrive,
  /// expects another number of bytes, or its window is gone.
  TAPA_HOST_DEVICE bool find_window(std::byte*& window, Ready& ready) {
    if (!await_ready(ready)) return false;
    if (!agree(ready)) return false;
    const Target target = unpack(ready.target);
    return target.window == Target::kStaging || find_place(target, window);
  }
  TAPA_HOST_DEVICE bool find_place(Target target, std::byte*& window) {
    std::byte* const base = call_.windows[target.window * kMaxRanks + static_cast<Word>(peer_)];
    if (base == nullptr) {
      if (team_.lane() == 0) waiting().no_window();
      return false;
    }
    window = base + target.offset;
    return true;
  }

  TAPA_HOST_DEVICE bool send_chunk(Slice out, Word step) {
    if (step >= kStagingSlots) {
      const Word freed = progress(sequence_, step - kStagingSlots + 1);
      bool failed = false;
      if (team_.lane() == 0) {
        failed = !waiting().spin([&] { return team_.acquire(&words().consumed) >= freed; });
      }
      if (team_.any(failed)) return false;
    }
    const Slice chunk = chunk_at(out, step);
    gather(team_, theirs_.staging(peer_, call_.rank, channel_, step), block_, chunk);
    say(&ChannelWords::arrived, step + 1);
    return true;
  }

  TAPA_HOST_DEVICE bool receive_chunk(Slice in, Word step, Word chunks) {
    if (!await(step)) return false;
    scatter(team_, block_, chunk_at(in, step), mine_.staging(call_.rank, peer_, channel_, step));
    // Of the last ones the peer hears with the next call's "ready".
    if (step + kStagingSlots < chunks) say(&ChannelWords::consumed, step + 1);
    return true;
  }

  /// Waits for what a flag of the peer announces.
  TAPA_HOST_DEVICE bool await(Word step) {
    const Word wanted = progress(sequence_, step + 1);
    bool failed = false;
    if (team_.lane() == 0) {
      Word got = 0;
      failed = !waiting().spin([&] { return (got = team_.acquire(&words().arrived)) >= wanted; });
      if (got == progress(sequence_, kRefused)) {
        waiting().disagree_from();
        failed = true;
      }
    }
    return !team_.any(failed);
  }

  TAPA_HOST_DEVICE Slice chunk_at(Slice slice, Word step) const {
    const Word chunk = chunk_of(slice.bytes, tuning());
    const Word begin = step * chunk;
    return {slice.begin + begin, least(chunk, slice.bytes - begin)};
  }

  /// Tells the peer that all lanes are done with `steps` steps.
  TAPA_HOST_DEVICE void say(Word ChannelWords::*word, Word steps) {
    team_.any(false);
    if (team_.lane() == 0) {
      team_.signal(&(theirs_.words(call_.rank, channel_).*word), progress(sequence_, steps));
    }
  }

  Team& team_;
  const CallOf<BlockType>& call_;
  const BlockType& block_;
  int peer_;
  int channel_;
  Word sequence_;
  RegionView mine_;
  RegionView theirs_;
};

/// This channel's part of a rank's block for itself.
template <class Team, class BlockType>
TAPA_HOST_DEVICE inline void copy_own(Team& team, const CallOf<BlockType>& call, int channel) {
  const BlockType& block = call.blocks[call.rank];
  const Slice slice = slice_of(block.send_bytes, channel, call.channels);
  if (slice.bytes != 0) move_own(team, block, slice);
}

/// After a failure: what this team should have received is no number, so that nobody takes what lies there
/// for a result. Each team of a peer spoils its share, whatever way the block had.
template <class Team, class BlockType>
TAPA_HOST_DEVICE inline void spoil(Team& team, const CallOf<BlockType>& call, TeamPlace place) {
  const BlockType& block = call.blocks[place.peer];
  const Slice slice = slice_of(block.receive_bytes, place.channel, call.channels);
  Spoiling<Team> ones(team);
  if (slice.bytes != 0) scatter(ones, block, slice, static_cast<std::byte*>(nullptr));
}

/// What one team of a launch does: all of a call, or one of the parts of a call in which others store.
template <class Team, class BlockType>
TAPA_HOST_DEVICE inline void run_team(Team& team, const CallOf<BlockType>& call, Part part = Part::all) {
  const RegionView mine(call.regions[call.rank], call.region);
  const Word sequence = mine.local().sequence;
  const TeamPlace place = team_place(team.index(), call.rank, call.region.size);
  if (team.any(team.aborted(mine.local()))) {
    // Peers may have left the call long ago: nothing is written to them any more.
  } else if (place.peer == call.rank) {
    if (part == Part::all || part == Part::copies) copy_own(team, call, place.channel);
  } else if (part == Part::all) {
    Channel<Team, BlockType>(team, call, place, sequence).run();
  } else if (part == Part::begin) {
    Channel<Team, BlockType>(team, call, place, sequence).begin_stores();
  } else if (part == Part::copies) {
    Channel<Team, BlockType>(team, call, place, sequence).store_beside_copies();
  } else if (part == Part::join) {
    Channel<Team, BlockType>(team, call, place, sequence).await_copies();
  } else {
    Channel<Team, BlockType>(team, call, place, sequence).end_stores();
  }
  if (part == Part::all && team.any(team.aborted(mine.local()))) spoil(team, call, place);
  if (part != Part::begin) team.leave(mine.local(), sequence, teams_that_end(call, part));
}

}  // namespace tapa::device
