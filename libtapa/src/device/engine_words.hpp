/// @file
/// What two ranks tell each other of messages that copy engines move through slots in memory of the host (see
/// copy_engines.hpp), and what kernels do before and behind the copies. Host and device.
///
/// Flags of slots are written and waited for by stream memory operations, and have the same values in every
/// exchange, so that a CUDA graph replays like any call. Such a wait has no end of its own. Where nothing can
/// come any more a thread of the host sets the flags so that all waits end, and the kernel behind the copies
/// finds that they moved nothing of worth: it looks whether the other rank came, or has left without that.
#pragma once

#include "device/region.hpp"
#include "device/spoiling.hpp"

namespace tapa::device {

inline constexpr int kEngineSlots = 8;

/// Of a slot. Who fills it waits for kSlotEmpty's bit, who empties it for kSlotFull's; both are set to end
/// all waits.
inline constexpr std::uint32_t kSlotFull = 1, kSlotEmpty = 2, kSlotFree = 3;

/// One direction between two ranks. Written by devices, but for the flags after a failure.
struct EngineWords {
  struct End {
    alignas(128) Word begun;  ///< exchanges that this end has come to, counted for each direction
    Word good;                ///< that it has completed
  };
  End sender, receiver;
  TAPA_HOST_DEVICE End& end(bool sends) { return sends ? sender : receiver; }
  alignas(128) std::uint32_t flag[kEngineSlots];
};

/// One end of a direction as kernels see it.
struct EngineEnd {
  EngineWords* words;
  const Word* left;  ///< not 0 once the other rank makes no more calls
  const Word* lost;  ///< memory of the host: not 0 once this rank's thread has given the other up
  Word* missing;     ///< where to note that
  Word* begun;       ///< device memory: exchanges that the rank has begun at this end, and has behind it
  Word* passed;
  bool sends;
  TAPA_HOST_DEVICE EngineWords::End& own() const { return words->end(sends); }
  TAPA_HOST_DEVICE EngineWords::End& other() const { return words->end(!sends); }
};

/// How many exchanges of a rank have begun, and have ended.
struct EngineCounts {
  Word begun, ended;
};

/// One exchange of a rank: an argument of fixed size, which a CUDA graph records.
inline constexpr int kMaxEngineJobs = 128;
struct EngineLaunch {
  const EngineEnd* table;
  LocalState* state;      ///< of the rank: whether something has failed
  EngineCounts* counts;   ///< device memory
  EngineCounts* on_host;  ///< the same, for a thread of the host
  Word* gave_up;          ///< memory of the host: not 0 once this rank gives all exchanges up
  int jobs;
  struct Job {
    std::byte* memory;
    Word bytes;
    int end;
  } job[kMaxEngineJobs];
};

/// What one team does before the copies, while those of exchanges before may be under way. A rank that has
/// failed comes to nothing, and waits for nothing.
template <class Team>
TAPA_HOST_DEVICE inline void begin_engines(Team& team, const EngineLaunch& launch) {
  const bool failed = team.any(team.aborted(*launch.state));
  for (int index = team.lane(); index < launch.jobs && !failed; index += team.lanes()) {
    const EngineEnd& end = launch.table[launch.job[index].end];
    team.signal(&end.own().begun, ++*end.begun);
  }
  if (team.lane() != 0) return;
  if (failed) team.note(launch.gave_up, 1);
  team.signal(&launch.on_host->begun, ++launch.counts->begun);
}

/// Whether the exchange that this end is in came to nothing: its copies may have found free slots.
template <class Team>
TAPA_HOST_DEVICE inline bool is_lost(const EngineEnd& end) {
  if (Team::acquire(end.lost) != 0) return true;
  return Team::acquire(end.left) != 0 && Team::acquire(&end.other().good) <= *end.passed;
}

/// What one team does behind them. After a failure nobody takes what lies in the blocks for a result.
template <class Team>
TAPA_HOST_DEVICE inline void end_engines(Team& team, const EngineLaunch& launch) {
  const Word exchange = launch.counts->ended + 1;
  bool failed = team.any(team.aborted(*launch.state) || Team::acquire(launch.gave_up) != 0);
  for (int index = team.lane(); index < launch.jobs; index += team.lanes()) {
    const EngineEnd& end = launch.table[launch.job[index].end];
    if (is_lost<Team>(end)) team.lost(*launch.state, end.missing, exchange);
  }
  failed = team.any(failed || team.aborted(*launch.state));
  for (int index = team.lane(); index < launch.jobs; index += team.lanes()) {
    const EngineEnd& end = launch.table[launch.job[index].end];
    const Word number = ++*end.passed;
    if (!failed) team.signal(&end.own().good, number);
  }
  for (int index = 0; index < launch.jobs && failed; ++index) {
    const EngineLaunch::Job& job = launch.job[index];
    if (!launch.table[job.end].sends) spoil_bytes(team, job.memory, job.bytes);
  }
  team.any(false);
  if (team.lane() != 0) return;
  launch.counts->ended = exchange;
  team.signal(&launch.on_host->ended, exchange);
}

/// What a thread of the host sees of an end.
struct EngineProgress {
  Word own_begun, own_good, other_begun;
  bool other_left;
  /// Whether an exchange is under way at this end.
  [[nodiscard]] constexpr bool waits() const { return own_begun > own_good; }
  /// Whether the other rank has not come to it.
  [[nodiscard]] constexpr bool alone() const { return waits() && other_begun < own_begun; }
};

/// Whether an end's exchange cannot be completed any more. `late`: it takes longer than the time limit.
/// `others_alone`: another end of this rank waits for one who has not come, which explains the delay.
[[nodiscard]] constexpr bool is_in_vain(const EngineProgress& end, bool late, bool others_alone) {
  if (end.alone()) return end.other_left || late;
  return end.waits() && late && !others_alone;
}

/// How messages of a direction between two ranks travel.
struct EngineShape {
  Word slot = 0;   ///< bytes of one; 0: engines move nothing
  Word slots = 0;  ///< at most kEngineSlots
  Word least = 0;  ///< bytes of a chunk that are worth an engine's start
  Word from = 0;   ///< bytes of a message from which engines are faster than kernels
};

/// How a message is cut: each chunk lies in a slot of its own while it is on its way.
class EngineCut {
 public:
  constexpr EngineCut(Word bytes, const EngineShape& shape)
      : bytes_(bytes), chunk_(least(shape.slot, most(shape.least, round_up(divide_up(bytes, 3), kGrain)))) {}
  [[nodiscard]] constexpr Word count() const { return divide_up(bytes_, chunk_); }
  [[nodiscard]] constexpr Slice at(Word step) const {
    return {step * chunk_, least(chunk_, bytes_ - step * chunk_)};
  }

 private:
  Word bytes_, chunk_;
};

}  // namespace tapa::device
