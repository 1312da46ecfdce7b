/// @file
/// Numbers that are taken and given back.
#pragma once

#include <atomic>
#include <optional>

namespace tapa {

/// Takes the first of the numbers below `most` that `take` can take, `next` first, which then moves behind
/// it: one given back comes again as late as can be. Nothing when none can be taken. Thread-safe where `take`
/// is.
template <class Take>
[[nodiscard]] std::optional<unsigned> take_next(std::atomic<unsigned>& next, unsigned most,
                                                const Take& take) {
  const unsigned begin = next.load(std::memory_order_relaxed);
  for (unsigned tried = 0; tried < most; ++tried) {
    const unsigned number = (begin + tried) % most;
    if (!take(number)) continue;
    next.store(number + 1, std::memory_order_relaxed);
    return number;
  }
  return std::nullopt;
}

}  // namespace tapa
