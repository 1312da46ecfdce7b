/// @file
/// Who is late in all-to-alls, from the times that the ranks took for the same calls. No rank can leave a
/// call before the last one has come, which alone waits for nobody: the shortest time is that of the
/// transfer, and what the others took longer, they waited. So no clocks are compared. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "report/call_samples.hpp"

namespace tapa {

struct Lateness {
  /// A rank that is the last one much more often than chance would have it.
  struct Rank {
    int rank = 0;
    std::size_t last = 0;   ///< calls in which the others waited for it
    std::size_t calls = 0;  ///< its calls in which somebody waited
    double waited = 0;      ///< seconds that each of the others waited for it in the mean
  };
  std::size_t calls = 0;   ///< that all of their ranks have timed
  double waiting = 0;      ///< seconds of waiting in them, of all ranks together
  double transfer = 0;     ///< the rest
  std::vector<Rank> late;  ///< the latest first
};

/// `samples`: by rank. Calls are left out that some of their ranks did not time, and those whose ranks move
/// amounts of data that differ much, as then the shortest time says nothing of the others.
[[nodiscard]] Lateness find_lateness(std::span<const std::vector<CallSample>> samples);

}  // namespace tapa
