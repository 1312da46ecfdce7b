#include "progress.hpp"

#include "profile/progress.hpp"

namespace dit::tool {

ProgressLine::ProgressLine(std::string what, bool wanted) : what_(std::move(what)), line_(wanted) {}

void ProgressLine::show(int step, int steps, const StepReport& report) {
  spent_ += report.seconds;
  if (line_.active()) line_.show(what_ + " " + progress_line({step + 1, steps, report.seconds, spent_}));
}

Progress ProgressLine::callback() {
  if (!line_.active()) return {};
  return [this](int step, int steps, const StepReport& report) { show(step, steps, report); };
}

}  // namespace dit::tool
