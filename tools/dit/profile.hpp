/// @file
/// How much a model's attention repeats itself from step to step.
#pragma once

#include <string>

#include "engine/engine.hpp"
#include "profile/redundancy.hpp"

namespace dit::tool {

inline constexpr float default_momentum = 0.75F;

/// Makes an image on one rank and looks at all of attention's tensors.
[[nodiscard]] RedundancyProfile profile_of(const LoadedModel& model, GenerateOptions options, float momentum);

}  // namespace dit::tool
