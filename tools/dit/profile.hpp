/// @file
/// How much a model's attention repeats itself from step to step.
#pragma once

#include <optional>

#include "engine/engine.hpp"
#include "profile/redundancy.hpp"

namespace dit::tool {

/// What was given, or what suits the number of steps.
[[nodiscard]] float momentum_for(const std::optional<double>& given, const GenerateOptions& options);

/// Makes an image on one rank and looks at all of attention's tensors.
[[nodiscard]] RedundancyProfile profile_of(const LoadedModel& model, GenerateOptions options, float momentum);

}  // namespace dit::tool
