/// What ranks tell each other in a round, as bytes that each of them gives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bootstrap/caller_functions.hpp"
#include "bootstrap/rounds.hpp"

namespace dit {

/// What all ranks have given.
struct Gathered {
  std::vector<std::vector<NextStep>> steps;  ///< of each rank
  std::vector<std::uint64_t> blocks;  ///< of each rank those of its first step, 2 * size; 0 where it has none
};

/// Collective. `mine` is not empty; `blocks`: of its first step, or empty. Throws PluginFailure.
[[nodiscard]] Gathered gather_steps(CallerFunctions& functions, std::span<const NextStep> mine,
                                    std::span<const std::uint64_t> blocks);

/// The blocks of an exchange, of all ranks. Collective.
[[nodiscard]] std::vector<std::uint64_t> gather_blocks(CallerFunctions& functions,
                                                       std::span<const std::uint64_t> mine);

}  // namespace dit
