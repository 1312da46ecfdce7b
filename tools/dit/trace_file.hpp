/// @file
/// Time lines of all ranks in one Chrome trace.
#pragma once

#include <filesystem>
#include <string>

#include "engine/engine.hpp"
#include "job.hpp"

namespace dit::tool {

/// The trace of all ranks on rank 0's clock, as text; empty on other ranks. Collective.
[[nodiscard]] std::string joint_trace(const Member& member, const GenerateResult& own);

}  // namespace dit::tool
