#include "profile/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dit {
namespace {

std::string bar(int step, int steps, int width) {
  const int filled = steps < 1 ? width : static_cast<int>(static_cast<double>(step) / steps * width);
  std::string text(static_cast<std::size_t>(filled), '=');
  if (filled < width) {
    text += '>';
  }
  text.resize(static_cast<std::size_t>(width), ' ');
  return '[' + text + ']';
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double most = 1e9;
  if (!(seconds >= 0 && seconds < most)) {
    return "?";
  }
  const long whole = std::lround(seconds);
  char text[48];
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1000);
  } else if (seconds < 9.95) {
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  } else if (whole < 60) {
    std::snprintf(text, sizeof(text), "%ld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%ld min %ld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%ld h %ld min", whole / 3600, whole % 3600 / 60);
  }
  return text;
}

std::string progress_line(const ProgressState& state, int bar_width) {
  const int step = std::clamp(state.step, 0, std::max(state.steps, 0));
  std::string line = std::to_string(step) + "/" + std::to_string(state.steps) + " " +
                     bar(step, state.steps, std::max(bar_width, 1));
  if (step == 0) {
    return line;
  }
  line += ' ' + duration_text(state.step_seconds) + "/step, ";
  if (step < state.steps) {
    return line.append(duration_text(state.elapsed_seconds / step * (state.steps - step))).append(" left");
  }
  return line.append(duration_text(state.elapsed_seconds)).append(" in all");
}

}  // namespace dit
