/// What is wrong on one rank is known to all, so that none waits for it.
#pragma once

#include <functional>

#include "common/ranks.hpp"

namespace dit {

/// Runs `step` on all ranks. When it throws on some, all throw PluginFailure: those with their own words, the
/// others with those of the first rank that has some. Collective.
void together(Ranks& ranks, const std::function<void()>& step);

}  // namespace dit
