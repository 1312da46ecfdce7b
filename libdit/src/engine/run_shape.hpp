/// What an image's options mean for this number of ranks: sizes, units and layouts. Pure; refuses what does
/// not fit.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.hpp"
#include "layout/layout.hpp"
#include "models/model.hpp"

namespace dit {

struct RunShape {
  std::int64_t columns = 0;  ///< of tokens in the image
  std::int64_t tokens = 0;
  bool guided = false;
  GuidanceMode mode = GuidanceMode::batched;
  int layout_ranks = 1;      ///< ranks that share one branch
  AttentionShape attention;  ///< of one unit
  int units = 1;
  bool coded = false;  ///< a wire policy, and some links that it means
};

/// Throws std::invalid_argument that names the option, its value and what was expected. `context`: null for
/// one rank.
[[nodiscard]] RunShape shape_of(const ModelShape& model, const GenerateOptions& options,
                                const ExchangeContext* context);
/// The same for ranks that are only planned, as if the policy meant some of their links.
[[nodiscard]] RunShape shape_of(const ModelShape& model, const GenerateOptions& options, int ranks);
[[nodiscard]] UlyssesLayout layout_of(const RunShape& shape, const GenerateOptions& options);

/// What one rank of those that share a branch remembers, as if all others were far; nothing when exact.
[[nodiscard]] CacheBytes cache_of(const ModelShape& model, const RunShape& shape,
                                  const GenerateOptions& options, int layout_rank);

/// All that can be said before anything is allocated or sent, on any rank the same. `context`: null for one
/// rank.
void check_options(const ModelConfig& config, const GenerateOptions& options, const ExchangeContext* context);

/// The options as text: equal on two ranks exactly when all options are.
[[nodiscard]] std::string options_text(const GenerateOptions& options);
/// The part of it on which the time of a forward pass depends.
[[nodiscard]] std::string timing_text(const GenerateOptions& options);

}  // namespace dit
