/// @file
/// In which order the copy engines of a rank move the chunks of an exchange (copy_engines.hpp): pure.
///
/// One distance between sender and receiver after the other, so that of all pairs of a host only one for each
/// sender is under way: what devices write into memory of the host stays in the processor's cache as long as
/// it is little, and copies are up to twice as fast for it.
#pragma once

#include <span>
#include <vector>

#include "device/words.hpp"

namespace tapa::device {

/// A message that a rank sends or receives.
struct EngineMessage {
  int distance;  ///< from the sender to the receiver, round the ring of all ranks
  bool sends;
  Word chunks;
};

/// What is put on the streams, one after the other.
struct EngineOp {
  enum class Kind {
    chunk,  ///< a chunk of a message, on the stream of its direction; who waits for it hears with the next
            ///< one
    tell,   ///< the way out tells of its chunk now
    mark,   ///< a place on the way in
    wait    ///< of the way out, for where the mark was put last, if ever
  } kind;
  int index;  ///< of the message, or of the mark: one for each distance and slot
  Word step;  ///< which chunk
  friend bool operator==(const EngineOp&, const EngineOp&) = default;
};

/// Marks of `ranks` ranks.
[[nodiscard]] constexpr int engine_marks(int ranks, Word slots) {
  return (ranks - 1) * static_cast<int>(slots);
}

/// Ranks do the same steps in the same order, and what waits in one waits for steps before it, on whatever
/// ranks. So nobody waits for ever where streams share a queue, as a rank tells of what goes out before it
/// waits for what comes in. The branches of a graph come in another order, maybe one after the other: there
/// the way out could come so far that it waits for slots that the peer's way in would empty behind its own
/// way out. So it waits for this rank's way in to be where a slot was used last. `slots`: of a direction
/// between two ranks. `in_graph`: there are marks and waits, else chunks are told of.
[[nodiscard]] std::vector<EngineOp> engine_order(std::span<const EngineMessage> messages, Word slots,
                                                 bool in_graph);

}  // namespace tapa::device
