/// @file
/// One failure from what each rank of a job has come to.
#pragma once

#include <optional>
#include <span>

#include "failure.hpp"

namespace dit::tool {

/// Nothing when all ranks are good. A line that all ranks have stands as it is, else the first rank's with
/// its number; ranks that only follow another one's failure count where no rank has a cause of its own.
[[nodiscard]] std::optional<Failure> joint_failure(std::span<const Verdict> ranks);

}  // namespace dit::tool
