/// @file
/// What "auto" stands for: the schedule, the guidance mode and the head groups of a run.
#pragma once

#include <string>

#include "engine/engine.hpp"
#include "job.hpp"
#include "run_words.hpp"

namespace dit::tool {

struct Choice {
  GenerateOptions options;  ///< nothing left open
  std::string why;          ///< "" when the words said all
};
/// Of the schedules, and of both ways to compute guidance's branches, the one with the best prediction from a
/// forward pass that is measured here. Collective. `options`: what the words say about the rest.
[[nodiscard]] Choice choose(const Member& member, const RunWords& words, GenerateOptions options,
                            Engine& engine);

}  // namespace dit::tool
