/// @file
/// How long this process has lived.
#pragma once

#include <optional>
#include <string_view>

namespace dit::tool {

/// Clock ticks from the machine's start to a process's, from the text of its /proc/PID/stat (proc(5), field
/// 22). The name of a program, field 2, may hold anything. Nothing where the text is another one.
[[nodiscard]] std::optional<double> start_ticks(std::string_view stat);

/// Seconds since this process began; 0 where the system does not tell.
[[nodiscard]] double process_age();

}  // namespace dit::tool
