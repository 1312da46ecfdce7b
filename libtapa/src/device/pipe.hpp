/// @file
/// A pipe: one direction between this rank's device and a rank of another node, through slots in memory that
/// the device knows and somebody else: a thread of the host (proxy.hpp), which sends the slots that the
/// device has filled and receives into those that it empties, or the other rank's device (host_wire.hpp).
/// Nobody calls CUDA for it, so nothing that the program does in CUDA can hold a message up, and a CUDA graph
/// replays like any call. Host and device.
///
/// Counts grow for ever. Chunk n lies in slot n modulo kPipeSlots. A message is cut into slices, one for each
/// channel of the pair, and a slice into chunks: both ends know its bytes, so nobody tells them.
#pragma once

#include "device/copy.hpp"
#include "device/region.hpp"
#include "device/spoiling.hpp"

namespace tapa::device {

/// Enough that the line is busy while words go to and fro. Slots are short, below the length from which MPI
/// asks the receiver first: that question would wait behind all data on the same connection, and the two
/// directions of a line would take turns.
inline constexpr int kPipeSlots = 32;

/// What the host says when its thread has ended by an error: nothing comes any more.
inline constexpr Word kPipeBroken = ~Word{0};

/// Bytes of the chunks of a slice: as long as a slot, or shorter so that the ways to the slots, from host to
/// host and out of the slots overlap.
TAPA_HOST_DEVICE constexpr Word pipe_chunk(Word slice, Word slot) {
  constexpr Word kLeast = 32 << 10;
  return least(slot, most(round_up(divide_up(slice, kPipeSlots), kGrain), kLeast));
}

/// How a slice is cut into chunks, which both ends know. Between two devices the first chunk and the last are
/// cut again, into 1, 1, 2 and 4 eighths, the last the other way round: the receiver begins soon after the
/// sender and ends soon after it, while what lies between keeps the way full.
class PipeCut {
 public:
  TAPA_HOST_DEVICE PipeCut(Word slice, Word slot, bool between_devices)
      : bytes_(slice), chunk_(pipe_chunk(slice, slot)), whole_(divide_up(slice, chunk_)) {
    const bool short_enough = whole_ + 2 * (kPieces - 1) <= kPipeSlots;  // else a sender would wait for slots
    ramps_ = between_devices && whole_ >= 2 && short_enough && chunk_ % (8 * kGrain) == 0;
  }
  TAPA_HOST_DEVICE Word count() const { return ramps_ ? whole_ + 2 * (kPieces - 1) : whole_; }
  TAPA_HOST_DEVICE Slice at(Word step) const {
    if (!ramps_) return part_of(step, 0, 8);
    if (step < kPieces) return part_of(0, rising(step), rising(step + 1));
    const Word last = whole_ + kPieces - 2;  // first step of the last chunk
    if (step < last) return part_of(step - kPieces + 1, 0, 8);
    const Word left = kPieces - (step - last);
    return part_of(whole_ - 1, 8 - rising(left), 8 - rising(left - 1));
  }

 private:
  static constexpr Word kPieces = 4;
  /// Where piece `index` of the first chunk begins, in eighths.
  TAPA_HOST_DEVICE static Word rising(Word index) { return index == 0 ? 0 : Word{1} << (index - 1); }
  /// A part of a chunk, in eighths of what it has.
  TAPA_HOST_DEVICE Slice part_of(Word index, Word begin, Word end) const {
    const Word first = index * chunk_;
    const Word length = least(chunk_, bytes_ - first);
    const Word from = edge(length, begin);
    return {first + from, edge(length, end) - from};
  }
  TAPA_HOST_DEVICE static Word edge(Word length, Word eighths) {
    return eighths == 8 ? length : length * eighths / 8 / kGrain * kGrain;
  }

  Word bytes_, chunk_, whole_;
  bool ramps_ = false;
};

/// What device and host tell each other of one pipe: memory of the host that both can use. The device writes
/// the first part and the host the second.
struct PipeWords {
  alignas(64) Word device;          ///< chunks that the device has filled, or emptied
  std::uint32_t bytes[kPipeSlots];  ///< of the chunk in each slot, when sending
  alignas(64) Word host;            ///< chunks that the host has sent, or received
};

/// One pipe as the device sees it.
struct Pipe {
  Word* said;         ///< what the device tells: chunks that it has filled, or emptied
  const Word* heard;  ///< what it goes by: chunks that the other end has done
  const Word* left;   ///< not 0 once the other end's rank makes no more calls; null: nobody says
  std::uint32_t*
      bytes;         ///< of the chunk in each slot, when sending to a thread of the host; null: to a device
  std::byte* slots;  ///< kPipeSlots times as long as one is
  Word* passed;      ///< in device memory: chunks of calls before this one
};
/// One whose other end is a thread of the host.
TAPA_HOST_DEVICE inline Pipe pipe_to_host(PipeWords& words, std::byte* slots, Word* passed) {
  return {&words.device, &words.host, nullptr, words.bytes, slots, passed};
}

/// A part of a message that one team moves.
struct PipeJob {
  Pipe pipe;
  std::byte* memory;
  Word bytes;
  Word* missing;  ///< where to note that the peer did not come
  bool sends;
};

/// What teams of one launch have in common.
struct PipeTurn {
  Word slot;          ///< bytes of one
  Word timeout;       ///< nanoseconds; 0: none
  LocalState* state;  ///< of the rank: whether something has failed
  LocalState* own;    ///< of the pipes: number of this exchange
};

/// Moves one job by one team (see waiting.hpp for what a Team has). False when the peer did not come.
template <class Team>
class PipeMove {
 public:
  TAPA_HOST_DEVICE PipeMove(Team& team, const PipeTurn& turn, const PipeJob& job)
      : team_(team), turn_(turn), job_(job), cut_(job.bytes, turn.slot, job.pipe.bytes == nullptr) {}

  TAPA_HOST_DEVICE void run() {
    const Word first = *job_.pipe.passed;
    const Word chunks = cut_.count();
    for (Word step = 0; step < chunks; ++step) {
      if (!(job_.sends ? fill(first + step, cut_.at(step)) : empty(first + step, cut_.at(step)))) return;
    }
    team_.any(false);  // all lanes have read the count
    if (team_.lane() == 0) *job_.pipe.passed = first + chunks;
  }

 private:
  TAPA_HOST_DEVICE std::byte* slot(Word chunk) const {
    return job_.pipe.slots + chunk % kPipeSlots * turn_.slot;
  }

  /// Waits until the other end has done `wanted` chunks.
  TAPA_HOST_DEVICE bool await(Word wanted) {
    bool failed = false;
    if (team_.lane() == 0) failed = !spin(wanted);
    return !team_.any(failed);
  }
  TAPA_HOST_DEVICE bool spin(Word wanted) {
    for (std::uint32_t spins = 1;; ++spins) {
      const Word done = team_.acquire(job_.pipe.heard);
      if (done != kPipeBroken) {
        if (done >= wanted) return true;
        if (!team_.looks(spins)) continue;
        if (team_.aborted(*turn_.state)) return false;  // another team has, and said why
        if (!has_left() && !team_.gives_up(turn_.timeout)) continue;
      }
      team_.lost(*turn_.state, job_.missing, turn_.own->sequence);
      return false;
    }
  }
  TAPA_HOST_DEVICE bool has_left() const {
    return job_.pipe.left != nullptr && Team::acquire(job_.pipe.left) != 0;
  }
  TAPA_HOST_DEVICE void say(Word chunks) {
    team_.any(false);
    if (team_.lane() == 0) team_.signal(job_.pipe.said, chunks);
  }

  TAPA_HOST_DEVICE bool fill(Word chunk, Slice part) {
    if (chunk >= kPipeSlots && !await(chunk - kPipeSlots + 1)) return false;
    copy_bytes(team_, slot(chunk), job_.memory + part.begin, part.bytes);
    if (team_.lane() == 0 && job_.pipe.bytes != nullptr)
      job_.pipe.bytes[chunk % kPipeSlots] = static_cast<std::uint32_t>(part.bytes);
    say(chunk + 1);
    return true;
  }
  TAPA_HOST_DEVICE bool empty(Word chunk, Slice part) {
    if (!await(chunk + 1)) return false;
    copy_bytes(team_, job_.memory + part.begin, slot(chunk), part.bytes);
    say(chunk + 1);
    return true;
  }

  Team& team_;
  const PipeTurn& turn_;
  const PipeJob& job_;
  PipeCut cut_;
};

/// What team `index` of a launch does. Peers that come to nothing on this rank hear nothing after a failure.
template <class Team>
TAPA_HOST_DEVICE inline void run_pipe(Team& team, const PipeTurn& turn, const PipeJob& job, int teams) {
  const Word sequence = turn.own->sequence;
  if (!team.any(team.aborted(*turn.state))) PipeMove<Team>(team, turn, job).run();
  if (!job.sends && team.any(team.aborted(*turn.state))) spoil_bytes(team, job.memory, job.bytes);
  team.leave(*turn.own, sequence, teams);
}

}  // namespace tapa::device
