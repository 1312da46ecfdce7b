#include "progress.hpp"

#include <unistd.h>

#include <cstdio>

#include "profile/progress.hpp"

namespace dit::tool {

ProgressLine::ProgressLine(std::string what, bool wanted)
    : what_(std::move(what)), active_(wanted && isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (active_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::show(int step, int steps, const StepReport& report) {
  spent_ += report.seconds;
  if (!active_) return;
  const std::string line = progress_line({step + 1, steps, report.seconds, spent_});
  std::fprintf(stderr, "\r\033[K%s %s", what_.c_str(), line.c_str());
  std::fflush(stderr);
}

Progress ProgressLine::callback() {
  if (!active_) return {};
  return [this](int step, int steps, const StepReport& report) { show(step, steps, report); };
}

}  // namespace dit::tool
