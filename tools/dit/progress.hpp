/// @file
/// A line on the terminal that tells how far a run is.
#pragma once

#include <string>

#include "engine/engine.hpp"
#include "status_line.hpp"

namespace dit::tool {

/// Writes over itself on a terminal; silent elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what, bool wanted);
  /// After a step: step time and the time that is left.
  void show(int step, int steps, const StepReport& report);
  [[nodiscard]] Progress callback();

 private:
  std::string what_;
  tapa::StatusLine line_;
  double spent_ = 0;
};

}  // namespace dit::tool
