/// One line about how far a run is.
#pragma once

#include <string>

namespace dit {

struct ProgressState {
  int step = 0;  ///< steps done
  int steps = 1;
  double step_seconds = 0;     ///< of the last step
  double elapsed_seconds = 0;  ///< of all steps done
};
/// "12/50 [=====>    ] 410 ms/step, 16 s left"; the rest is estimated from the mean of the steps done.
[[nodiscard]] std::string progress_line(const ProgressState& state, int bar_width = 24);
/// "410 ms", "16 s", "3 min 5 s", "2 h 4 min".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace dit
