/// Plays an order with the graph's estimates: how long it would take, and when what would run.
#pragma once

#include <vector>

#include "schedule/order.hpp"

namespace dit {

/// How a replay models the machine.
struct PredictOptions {
  double exchange_scale = 1;  ///< exchanges take so many times their estimates; >= 0
  double progress_cost =
      0;  ///< CPU share that an exchange under way takes from computing, in [0, 1]: nothing where
          ///< a NIC or a free core moves the bytes, up to 1 where the computing cores do
};

/// Exchanges share one lane in the order of their starts. seconds = compute_seconds + exposed_seconds.
struct Prediction {
  double seconds = 0;
  double compute_seconds = 0;   ///< slowed by progress_cost
  double exchange_seconds = 0;  ///< the lane busy
  double exposed_seconds = 0;   ///< exchange time during which nothing was computed
};
/// The order must be sound (verify). Throws std::invalid_argument that names the option, its value and what
/// was expected.
[[nodiscard]] Prediction predict(const StepGraph& graph, const Order& order,
                                 const PredictOptions& options = {});

/// When an action would run. Waits and blocking exchanges: the time during which nothing is computed.
struct ReplaySpan {
  Action action;
  double begin = 0;
  double end = 0;
  double link_begin = 0;  ///< start and exchange: when the bytes move
  double link_end = 0;
};
/// One span for each action, in order; as predict.
[[nodiscard]] std::vector<ReplaySpan> replay(const StepGraph& graph, const Order& order,
                                             const PredictOptions& options = {});

}  // namespace dit
