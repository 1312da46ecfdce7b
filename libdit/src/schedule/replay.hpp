/// Plays an order with the graph's estimates: what predict sums up and explain draws.
#pragma once

#include <vector>

#include "schedule/order.hpp"

namespace dit {

/// When an action would run. Waits and blocking exchanges: the time during which nothing is computed.
struct ReplaySpan {
  Action action;
  double begin = 0;
  double end = 0;
  double link_begin = 0;  ///< start and exchange: when the bytes move
  double link_end = 0;
};

/// One span for each action, in order. The order must be sound.
[[nodiscard]] std::vector<ReplaySpan> replay(const StepGraph& graph, const Order& order,
                                             const PredictOptions& options = {});

}  // namespace dit
