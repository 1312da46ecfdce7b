/// @file
/// dit as a function: what the program does with its words.
#pragma once

namespace dit::tool {

/// Carries out a command line and says what went wrong, if anything. Returns the exit status.
[[nodiscard]] int run(int argc, const char* const* argv);

}  // namespace dit::tool
