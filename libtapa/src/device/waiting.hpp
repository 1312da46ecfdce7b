/// @file
/// Waiting for a peer, and how it ends when what is awaited cannot come: too late, or the two do not agree.
/// Host and device.
///
/// A Team has, besides what copy.hpp asks for:
///     index()                         which team of its rank's launch it is
///     any(bool)                       a barrier of the team's lanes: whether one of them said true
///     relaxed(word), acquire(word)    loads of a word that a peer writes
///     post(word, value)               a store to a peer's word, in no order
///     signal(word, value)             the same, behind all that the team stored before its last any()
///     load_line(line)                 halves are read whole
///     store_line(line, data, flag)    and written whole
///     looks(spins)                    while waiting: whether to look at the clock and at contradictions now
///     gives_up(timeout)               then: whether it was too late at this look and at the last one; what
///                                     is awaited may have come before the first
///     aborted(local state)            whether a call before, or another team, has given up
///     note(word, value)               a store to the host's memory, before any later one
///     lost(local, failure, number)    gives up in this call, and notes why
///     leave(local, number, teams)     the team is done: the last one of the launch counts the call
#pragma once

#include "device/call.hpp"

namespace tapa::device {

/// One channel's waits for its peer. Small, as registers are scarce where one waits.
template <class Team, class BlockType>
struct Waiting {
  Team& team;
  const CallOf<BlockType>& call;
  int peer;
  int channel;
  Word sequence;

  /// Waits in this lane until `done()`. False when that cannot come any more; why is noted.
  template <class Done>
  TAPA_HOST_DEVICE bool spin(const Done& done) const {
    for (std::uint32_t spins = 1; !done(); ++spins) {
      if (!team.looks(spins)) continue;
      const bool parted = has_parted();  // behind all that it has stored
      if (parted && done()) return true;
      if (is_in_vain(team, call, peer, channel, sequence, parted)) return false;
    }
    return true;
  }

  // What is noted; by one lane.

  TAPA_HOST_DEVICE void elsewhere() const { team.lost(local(), &call.failure->elsewhere[peer], sequence); }
  TAPA_HOST_DEVICE void no_window() const { team.lost(local(), &call.failure->no_window[peer], sequence); }
  /// The peer expects another number of bytes than this rank sends.
  TAPA_HOST_DEVICE void disagree_to(Word expected) const {
    if (expected == kAnyBytes) {
      elsewhere();
    } else {
      disagree(call.failure->to[peer], block().send_bytes, expected);
    }
  }
  /// The peer sends another number of bytes than this rank expects; who waits for this rank's word is told.
  TAPA_HOST_DEVICE void disagree_from() const {
    const Ready ready = ready_of(block(), call.targets[peer]);
    const RegionView theirs(call.regions[peer], call.region);
    for (const int at : {0, channel}) {  // the first may not have begun, and does not any more
      for (int index = 0; index < BlockType::kWords; ++index) {
        team.post(&theirs.words(call.rank, at).ready[index], ready_word(sequence, payload_of(ready, index)));
      }
    }
    disagree(call.failure->from[peer], kUnknown, block().receive_bytes);
  }

 private:
  TAPA_HOST_DEVICE const BlockType& block() const { return call.blocks[peer]; }
  TAPA_HOST_DEVICE RegionView mine() const { return {call.regions[call.rank], call.region}; }
  TAPA_HOST_DEVICE LocalState& local() const { return mine().local(); }

  TAPA_HOST_DEVICE bool has_parted() const {
    return team.acquire(&mine().teardowns().of[peer]) != static_cast<Word>(Teardown::none);
  }

  TAPA_HOST_DEVICE void disagree(Disagreement& on, Word sent, Word expected) const {
    team.note(&on.sent, sent);
    team.note(&on.expected, expected);
    team.lost(local(), &on.call, sequence);
  }

  /// Whether what is awaited cannot come any more; notes why.
  TAPA_HOST_DEVICE TAPA_NO_INLINE static bool is_in_vain(Team& team, const CallOf<BlockType>& call, int peer,
                                                         int channel, Word sequence, bool parted) {
    const Waiting self{team, call, peer, channel, sequence};
    if (self.lines_differ() || self.ready_differs()) return true;
    if (team.aborted(self.local())) return true;  // another team has, and said why
    if (parted) {
      team.lost(self.local(), &call.failure->parted[peer], sequence);
      return true;
    }
    if (!team.gives_up(call.timeout)) return false;
    team.lost(self.local(), &call.failure->missing[peer], sequence);
    return true;
  }

  /// A first line of another length than this rank expects.
  TAPA_HOST_DEVICE bool lines_differ() const {
    const Line first = team.load_line(mine().mailbox(peer, mailbox_of(sequence)));
    if (!is_of_call(first.low_flag, sequence)) return false;
    if (first.low_flag == line_flag(sequence, block().receive_bytes)) return false;
    disagree_from();
    return true;
  }

  /// A place for a block that this rank sends as lines.
  TAPA_HOST_DEVICE bool ready_differs() const {
    if (way_of(block().send_bytes, call.region.tuning) != Way::lines) return false;
    const Word* const ready = mine().words(peer, channel).ready;
    Word payloads[BlockType::kWords];
    for (int index = 0; index < BlockType::kWords; ++index) {
      const Word word = team.relaxed(&ready[index]);
      if (!is_ready(word, sequence)) return false;
      payloads[index] = ready_payload(word);
    }
    disagree_to(bytes_of(ready_from(payloads).strides));
    return true;
  }
};

}  // namespace tapa::device
