/// An order as a picture of characters.
#pragma once

#include <string>

#include "predict/replay.hpp"

namespace dit {

struct ExplainOptions {
  int layers = 2;    ///< the first so many, until all units are through them
  int columns = 96;  ///< of the time line
  PredictOptions predict;
};

/// Time lines, one below the other: per unit what is computed and what travels, and when the rank waits; then
/// what is predicted for the whole order. A graph without estimates is drawn with steps of equal length. The
/// order must be sound. Throws std::invalid_argument that names the option, its value and what was expected.
///
///     first 1 of 10 layers: 16 ms of 160 ms, a column is 1 ms
///     compute   VQK----AAFMMMM
///     exchange   vvqqkk  oo
[[nodiscard]] std::string explain(const StepGraph& graph, const Order& order,
                                  const ExplainOptions& options = {});

}  // namespace dit
