/// @file
/// Times of an image from a few of its steps: those that send the same in the same way count as one kind.
#pragma once

#include <vector>

#include "engine/engine.hpp"

namespace dit::tool {

/// Of each step the number of its kind, from 0 in the order in which kinds come. Steps are of one kind when
/// their wire modes are, or V-Major's decisions: full, or rows of the same quarter.
[[nodiscard]] std::vector<int> step_kinds(const GenerateOptions& options, int layers);

/// Up to `most` steps of each kind, evenly spread, ascending; the first step is always there.
[[nodiscard]] std::vector<int> steps_to_time(const std::vector<int>& kinds, int most);

/// A report of which only `timed` steps had forward passes, as if all had: each step takes the report of the
/// nearest timed one of its kind.
[[nodiscard]] GenerateReport whole_report(const GenerateReport& timed_only, const std::vector<int>& kinds,
                                          const std::vector<int>& timed);

}  // namespace dit::tool
