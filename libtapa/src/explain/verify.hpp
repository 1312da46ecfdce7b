/// @file
/// Replays a plan of all ranks symbolically and says what is wrong with it, if anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plan/counts.hpp"
#include "plan/plan.hpp"

namespace tapa {

/// One defect, in words that name rank, step, peer, channel or block.
struct Defect {
  enum class Kind {
    malformed,      ///< index, range, size or rank out of bounds; deps not earlier steps; bytes != segments
    out_of_bounds,  ///< a segment leaves its block or the scratch
    writes_send,    ///< a step writes the caller's send buffer
    unmatched,      ///< a send without its receive or the reverse
    size_mismatch,  ///< both ends of a message disagree about its bytes
    duplicate_channel,  ///< two messages from one rank to one peer on one channel
    race,  ///< two steps of a rank touch the same bytes, one writing, and neither waits for the other
    uninitialized,  ///< a step reads bytes that nothing has written yet
    deadlock,       ///< steps that can never begin, taking sends as synchronous
    wrong_data,     ///< a received byte is not the one that belongs there
    missing_data,   ///< a byte of a block never arrives
    duplicate_data  ///< a byte of a block arrives more than once
  };
  Kind kind;
  std::string what;
};

[[nodiscard]] std::string_view to_string(Defect::Kind kind);

/// All defects found, at most `limit`; empty means the plan is right: every block arrives exactly once, in
/// place, nothing is read before it is there, no two unordered steps touch the same bytes, and it ends even
/// when every send waits for its receiver. Counts must be known for all blocks. Own ordering only: causality
/// through other ranks does not excuse a race.
[[nodiscard]] std::vector<Defect> verify(const Plan& plan, const Counts& counts, std::size_t limit = 16);

}  // namespace tapa
