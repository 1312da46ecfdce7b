/// @file
/// The protocol of an all-to-all between ranks that can write into each other's memory. One team (a thread
/// block; in tests, threads of the host) of a rank and one team of its peer move one channel of both blocks
/// between them. Host and device.
///
/// Short blocks: the sender writes lines into its mailbox at the receiver, who polls them. No handshake.
/// Longer ones: the receiver says where its data should land. Into a window the sender stores the whole slice
/// and then a flag. Into staging it stores chunks, each with a flag; the receiver copies them out and says so
/// before a slot is used again. That receivers say where means that no rank has to know what others
/// registered. A receiver says "ready" when its call has begun, so all it did before is done and all slots
/// are free.
///
/// A Team has, besides what copy.hpp asks for:
///     index()                      which team of its rank's launch it is
///     any(bool)                    a barrier of the team's lanes: whether one of them said true
///     relaxed(word), acquire(word) loads of a word that a peer writes
///     post(word, value)            a store to a peer's word, in no order
///     signal(word, value)          a store to a peer's word, behind all that the team stored before its last
///     any() load_line(line), store_line(line, data, flag) gives_up(failing, spins)     called while waiting:
///     true when the wait has been too long or the call failed aborted(local state)         whether a call
///     before, or another team, has given up lost(local state, failure word, sequence) gives up, and notes
///     why leave(local state, teams)    the team is done: the last one of the launch counts the call
#pragma once

#include "device/call.hpp"
#include "device/copy.hpp"

namespace tapa::device {

/// One channel between a rank and one peer, in one call.
template <class Team>
class Channel {
 public:
  TAPA_HOST_DEVICE Channel(Team& team, const Call& call, TeamPlace place, Word sequence)
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
    if (renews_mailbox(sequence_, tuning().renew_period)) {
      renew_mailbox(lines ? lines_of(block_.send_bytes) : 0);
    }
    if (lines) send_lines();
    if (!move_bulk(out, in)) return;
    if (way_of(block_.receive_bytes, tuning()) == Way::lines) receive_lines();
  }

  /// Waits until the peer can take its block at the place that `call.expected` says. Other engines copy then.
  TAPA_HOST_DEVICE void begin_copies() {
    post_ready();
    if (renews_mailbox(sequence_, tuning().renew_period)) renew_mailbox(0);
    Word packed = 0;
    if (!await_ready(packed)) return;
    if (packed != call_.expected && team_.lane() == 0) {
      team_.lost(mine_.local(), &call_.failure->elsewhere[peer_], sequence_);
    }
  }
  /// Tells the peer that its block was copied, and waits for the one from there.
  TAPA_HOST_DEVICE void end_copies() {
    say(&ChannelWords::arrived, 1);
    (void)await(0);
  }

 private:
  TAPA_HOST_DEVICE const Tuning& tuning() const { return call_.region.tuning; }

  /// This channel's part of a block; empty when it travels as lines or needs fewer channels.
  TAPA_HOST_DEVICE Slice bulk_slice(Word bytes) const {
    if (way_of(bytes, tuning()) == Way::lines) return {};
    const int channels = channels_of(bytes, tuning());
    return channel_ < channels ? slice_of(bytes, channel_, channels) : Slice{};
  }

  // --- Waiting.

  /// Waits in one lane until `done()`, and tells all. False when the peer did not arrive.
  template <class Done>
  TAPA_HOST_DEVICE bool wait(const Done& done) {
    bool failed = false;
    if (team_.lane() == 0) failed = !spin(done);
    return !team_.any(failed);
  }
  template <class Done>
  TAPA_HOST_DEVICE bool spin(const Done& done) {
    for (std::uint32_t spins = 1; !done(); ++spins) {
      if (!team_.gives_up(mine_.local(), call_.timeout, spins)) continue;
      if (done()) return true;
      team_.lost(mine_.local(), &call_.failure->missing[peer_], sequence_);
      return false;
    }
    return true;
  }

  // --- Lines.

  TAPA_HOST_DEVICE void send_lines() {
    const int channels = channels_of(block_.send_bytes, tuning());
    if (channel_ >= channels) return;
    Line* const mailbox = theirs_.mailbox(call_.rank, mailbox_of(sequence_));
    const Word lines = lines_of(block_.send_bytes);
    const Word stride = static_cast<Word>(channels) * static_cast<Word>(team_.lanes());
    for (Word line = first_line(); line < lines; line += stride) {
      team_.store_line(mailbox + line, load_line_data(team_, block_.send, block_.send_bytes, line),
                       line_flag(sequence_));
    }
  }

  /// Writes the flags of all lines but the first `used`, which this call sends.
  TAPA_HOST_DEVICE void renew_mailbox(Word used) {
    Line* const mailbox = theirs_.mailbox(call_.rank, mailbox_of(sequence_));
    const Word stride = static_cast<Word>(call_.channels) * static_cast<Word>(team_.lanes());
    for (Word line = used + first_line(); line < call_.region.mailbox_lines(); line += stride) {
      team_.store_line(mailbox + line, 0, line_flag(sequence_));
    }
  }

  TAPA_HOST_DEVICE void receive_lines() {
    const int channels = channels_of(block_.receive_bytes, tuning());
    if (channel_ >= channels) return;
    const Line* const mailbox = mine_.mailbox(peer_, mailbox_of(sequence_));
    const Word lines = lines_of(block_.receive_bytes);
    const Word stride = static_cast<Word>(channels) * static_cast<Word>(team_.lanes());
    const std::uint32_t flag = line_flag(sequence_);
    for (Word line = first_line(); line < lines; line += stride) {
      Line got{};
      const bool arrived = spin([&] {
        got = team_.load_line(mailbox + line);
        return got.low_flag == flag && got.high_flag == flag;
      });
      if (!arrived) return;
      store_line_data(team_, block_.receive, block_.receive_bytes, line,
                      std::uint64_t{got.high} << 32 | got.low);
    }
  }

  TAPA_HOST_DEVICE Word first_line() const {
    return static_cast<Word>(channel_) * static_cast<Word>(team_.lanes()) + static_cast<Word>(team_.lane());
  }

  // --- Bulk.

  /// Sends and receives in turns, two chunks ahead, so that what a turn waits for was begun two turns ago. A
  /// chunk is sent when the peer has consumed the one four before it, which it does after it has sent more of
  /// its own: neither waits for ever.
  TAPA_HOST_DEVICE bool move_bulk(Slice out, Slice in) {
    constexpr Word kAhead = kStagingSlots / 2;
    std::byte* window = nullptr;
    if (out.bytes != 0 && !find_window(window)) return false;
    const bool staged = unpack(call_.targets[peer_]).window == Target::kStaging;
    const Word sends = window != nullptr ? 1 : chunks_or_none(out.bytes);
    const Word receives = staged ? chunks_or_none(in.bytes) : least(in.bytes, 1);
    for (Word turn = 0; turn < most(sends, receives == 0 ? 0 : receives + kAhead); ++turn) {
      if (turn < sends && !(window != nullptr ? send_slice(window, out) : send_chunk(out, turn)))
        return false;
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
    if (team_.lane() >= kReadyWords) return;
    for (int index = team_.lane(); index < kReadyWords; index += team_.lanes()) {
      team_.post(&theirs_.words(call_.rank, channel_).ready[index],
                 ready_word(sequence_, call_.targets[peer_], index));
    }
  }

  /// Waits until the peer says where it wants its data.
  TAPA_HOST_DEVICE bool await_ready(Word& packed) {
    const ChannelWords& words = mine_.words(peer_, channel_);
    if (!wait([&] { return all_ready(words); })) return false;
    for (int index = 0; index < kReadyWords; ++index) {
      packed |= ready_payload(team_.relaxed(&words.ready[index]), index);
    }
    return true;
  }
  /// `window`: the block's place in the peer's window, null for staging. False when the peer did not arrive
  /// or the window is gone.
  TAPA_HOST_DEVICE bool find_window(std::byte*& window) {
    Word packed = 0;
    if (!await_ready(packed)) return false;
    const Target target = unpack(packed);
    if (target.window == Target::kStaging) return true;
    std::byte* const base = call_.windows[target.window * kMaxRanks + static_cast<Word>(peer_)];
    if (base == nullptr) {
      if (team_.lane() == 0) team_.lost(mine_.local(), &call_.failure->no_window[peer_], sequence_);
      return false;
    }
    window = base + target.offset;
    return true;
  }
  TAPA_HOST_DEVICE bool all_ready(const ChannelWords& words) {
    for (int index = 0; index < kReadyWords; ++index) {
      if (!is_ready(team_.relaxed(&words.ready[index]), sequence_)) return false;
    }
    // What the peer's device did before its call, such as reading its buffer, comes before our stores.
    team_.acquire(&words.ready[0]);
    return true;
  }

  TAPA_HOST_DEVICE bool send_slice(std::byte* window, Slice out) {
    copy_bytes(team_, window + out.begin, block_.send + out.begin, out.bytes);
    say(&ChannelWords::arrived, 1);
    return true;
  }

  TAPA_HOST_DEVICE bool send_chunk(Slice out, Word step) {
    const ChannelWords& words = mine_.words(peer_, channel_);
    if (step >= kStagingSlots) {
      const Word freed = progress(sequence_, step - kStagingSlots + 1);
      if (!wait([&] { return team_.acquire(&words.consumed) >= freed; })) return false;
    }
    const Slice chunk = chunk_at(out, step);
    copy_bytes(team_, theirs_.staging(call_.rank, channel_, step), block_.send + chunk.begin, chunk.bytes);
    say(&ChannelWords::arrived, step + 1);
    return true;
  }

  TAPA_HOST_DEVICE bool receive_chunk(Slice in, Word step, Word chunks) {
    if (!await(step)) return false;
    const Slice chunk = chunk_at(in, step);
    copy_bytes(team_, block_.receive + chunk.begin, mine_.staging(peer_, channel_, step), chunk.bytes);
    // Of the last ones the peer hears with the next call's "ready".
    if (step + kStagingSlots < chunks) say(&ChannelWords::consumed, step + 1);
    return true;
  }

  /// Waits for what a flag of the peer announces.
  TAPA_HOST_DEVICE bool await(Word step) {
    const ChannelWords& words = mine_.words(peer_, channel_);
    const Word wanted = progress(sequence_, step + 1);
    return wait([&] { return team_.acquire(&words.arrived) >= wanted; });
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
  const Call& call_;
  const Block& block_;
  int peer_;
  int channel_;
  Word sequence_;
  RegionView mine_;
  RegionView theirs_;
};

/// This channel's part of a rank's block for itself.
template <class Team>
TAPA_HOST_DEVICE inline void copy_own(Team& team, const Call& call, int channel) {
  const Block& block = call.blocks[call.rank];
  const Slice slice = slice_of(block.send_bytes, channel, call.channels);
  if (slice.bytes != 0) copy_bytes(team, block.receive + slice.begin, block.send + slice.begin, slice.bytes);
}

/// What one team of a launch does: all of a call, or one of the parts of a call by copy engines.
template <class Team>
TAPA_HOST_DEVICE inline void run_team(Team& team, const Call& call, Part part = Part::all) {
  const RegionView mine(call.regions[call.rank], call.region);
  const Word sequence = mine.local().sequence;
  const TeamPlace place = team_place(team.index(), call.rank, call.region.size);
  if (team.any(team.aborted(mine.local()))) {
    // Peers may have left the call long ago: nothing is written to them any more.
  } else if (place.peer == call.rank) {
    if (part == Part::all) copy_own(team, call, place.channel);
  } else if (part == Part::all) {
    Channel<Team>(team, call, place, sequence).run();
  } else if (part == Part::begin) {
    Channel<Team>(team, call, place, sequence).begin_copies();
  } else {
    Channel<Team>(team, call, place, sequence).end_copies();
  }
  if (part != Part::begin) team.leave(mine.local(), sequence, call.region.size * call.channels);
}

}  // namespace tapa::device
