/// One order for all ranks: rank 0 makes it, whatever another rank's arithmetic would make of its numbers.
#pragma once

#include "exchange/exchange.hpp"
#include "schedule/order.hpp"

namespace dit {

/// make_order on rank 0, told to the others. Collective; `context` null: one rank. The graph is the same on
/// all ranks.
[[nodiscard]] Order make_shared_order(Schedule schedule, const StepGraph& graph, ExchangeContext* context);

}  // namespace dit
