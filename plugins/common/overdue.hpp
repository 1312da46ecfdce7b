/// Words for what takes longer than the time limit.
#pragma once

#include <string>

namespace dit {

/// "the exchange 'v' has not ended after 1.0 s on rank 0 of 4, the limit is 1.0 s: "; the reason follows.
[[nodiscard]] inline std::string overdue_words(const std::string& what, double seconds, int rank, int size,
                                               double limit) {
  return what + " has not ended after " + std::to_string(seconds) + " s on rank " + std::to_string(rank) +
         " of " + std::to_string(size) + ", the limit is " + std::to_string(limit) + " s: ";
}

}  // namespace dit
