/// @file
/// What a run took, over all ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/engine.hpp"
#include "job.hpp"

namespace dit::tool {

/// One generate call of all ranks. Times of a step: the slowest rank's duration, the ranks' mean of what was
/// exposed.
struct RunSummary {
  double seconds = 0;              ///< the slowest rank's
  std::vector<double> step_ms;     ///< by step, the slowest rank's
  std::vector<double> compute_ms;  ///< by step, mean of the ranks
  std::vector<double> exposed_ms;  ///< by step, mean of the ranks
  std::vector<double> active;      ///< by step, fraction of rows on slow links
  double slow_bytes = 0;           ///< all ranks, mean of the steps
  double fast_bytes = 0;
  int reused_steps = 0;           ///< of the step cache
  int guarded = 0;                ///< exchanges that a wire policy's guard sent in bf16, over all steps
  double codec_ms = 0;            ///< wire policies: coding and decoding, mean of ranks and steps
  std::uint64_t cache_bytes = 0;  ///< the largest rank's
  int oldest_row = 0;
  std::uint64_t threads = 1;  ///< compute threads of a rank
};
/// Collective; the same on all ranks.
[[nodiscard]] RunSummary summarise(const Member& member, const GenerateReport& own);

[[nodiscard]] double median(std::vector<double> values);

/// {"seconds", "step_ms", "exposed_ms", ..., "steps": [{...}]}.
[[nodiscard]] nlohmann::ordered_json to_json(const RunSummary& summary);

}  // namespace dit::tool
