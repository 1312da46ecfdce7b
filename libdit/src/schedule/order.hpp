/// Orders of a step graph: what a rank does one after the other. Pure and deterministic: all ranks make the same order
/// from the same graph and estimates, as exchanges must start in the same order everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/step_graph.hpp"

namespace dit {

struct Action {
  enum class Kind : std::uint8_t { compute, start, wait, exchange };  ///< exchange: blocking, start and wait in one
  Kind kind = Kind::compute;
  StepId step = 0;
  bool operator==(const Action&) const = default;
};
using Order = std::vector<Action>;

/// The baseline: per block Q, K, V, then their blocking exchanges, attention, blocking output exchange.
[[nodiscard]] Order flat_order(const StepGraph& graph);
/// CoCoDiff's V-First, widened: V's whole exchange under Q and K, Q's under K.
[[nodiscard]] Order v_first_order(const StepGraph& graph);
/// List scheduling on two lanes, compute and exchange, by the graph's estimates: exchanges leave as soon as their
/// inputs are there, and while one unit or head group waits another computes. `exchanges_under_way`: at most so many.
[[nodiscard]] Order pipelined_order(const StepGraph& graph, int exchanges_under_way = 4);

enum class Schedule { flat, v_first, pipelined };
[[nodiscard]] Schedule parse_schedule(std::string_view name);  ///< throws std::invalid_argument that lists the names
[[nodiscard]] const char* to_string(Schedule schedule);
[[nodiscard]] Order make_order(Schedule schedule, const StepGraph& graph);

/// Empty when every step is done once, after what it depends on, and every start is waited for; else what is wrong.
[[nodiscard]] std::string verify(const StepGraph& graph, const Order& order);

/// Replay of an order with the graph's estimates: exchanges share one lane in the order of their starts.
struct Prediction {
  double seconds = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double exposed_seconds = 0;  ///< exchange time during which nothing was computed
};
[[nodiscard]] Prediction predict(const StepGraph& graph, const Order& order);

}  // namespace dit
