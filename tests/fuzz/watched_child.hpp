/// Inputs run in a child process, so that whatever an input does to it - a signal, a sanitizer's end, exit, a
/// hang - its number is known afterwards.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace fuzz {

/// How the child fared.
struct Fate {
  std::uint64_t inputs = 0;  ///< begun
  std::string wrong;         ///< what was wrong with the last of them; empty: all is well
  bool after_all = false;    ///< it was wrong only when all inputs were through, as leaks are
};

/// Calls `run` with 0, 1, ... in a child until it returns false, each at most `limit` long. No thread has
/// been started before. What the child leaves in its TMPDIR, a folder of its own, is removed.
[[nodiscard]] Fate run_watched(const std::function<bool(std::uint64_t)>& run, std::chrono::seconds limit);

}  // namespace fuzz
