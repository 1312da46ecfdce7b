/// Orders of a step graph: what a rank does one after the other. Pure and deterministic: all ranks make the
/// same order from the same graph and estimates, as exchanges must start in the same order everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/step_graph.hpp"

namespace dit {

struct Action {
  enum class Kind : std::uint8_t {
    compute,
    start,
    wait,
    exchange
  };  ///< exchange: blocking, start and wait in one
  Kind kind = Kind::compute;
  StepId step = 0;
  bool operator==(const Action&) const = default;
};
using Order = std::vector<Action>;

/// The baseline, steps by their ids: a unit's whole forward, then the next one's; per block Q, K, V, then
/// blocking exchanges, attention, blocking output exchange.
[[nodiscard]] Order flat_order(const StepGraph& graph);
/// CoCoDiff's V-First, widened: V's whole exchange under Q and K, Q's under K. Computes in the order of
/// flat_order; an exchange starts as soon as what it sends is there and is waited for just before its first
/// consumer. Needs no estimates.
[[nodiscard]] Order v_first_order(const StepGraph& graph);
/// List scheduling on two lanes, compute and exchange, by the graph's estimates: exchanges leave when their
/// inputs are there, and while one unit or head group waits another computes. Many priorities are tried; the
/// order is the one with the best prediction, also for exchanges that take twice as long as estimated. Takes
/// tens of milliseconds: make it once for a graph. Without any estimates it assumes that computing and
/// exchanging take equally long. `exchanges_under_way`: at most so many; 0: no limit, and then never
/// predicted worse than v_first_order.
[[nodiscard]] Order pipelined_order(const StepGraph& graph, int exchanges_under_way = 0);

enum class Schedule { flat, v_first, pipelined };
[[nodiscard]] Schedule parse_schedule(
    std::string_view name);  ///< throws std::invalid_argument that lists the names
[[nodiscard]] const char* to_string(Schedule schedule);
[[nodiscard]] Order make_order(Schedule schedule, const StepGraph& graph);

/// Empty when every step is done once, after what it depends on, and every start is waited for; else what is
/// wrong.
[[nodiscard]] std::string verify(const StepGraph& graph, const Order& order);

/// How a replay models the machine.
struct PredictOptions {
  double exchange_scale = 1;  ///< exchanges take so many times their estimates; >= 0
  double progress_cost =
      0;  ///< CPU share that an exchange under way takes from computing, in [0, 1]: nothing where
          ///< a NIC or a free core moves the bytes, up to 1 where the computing cores do
};

/// Replay of an order with the graph's estimates: exchanges share one lane in the order of their starts.
/// seconds = compute_seconds + exposed_seconds.
struct Prediction {
  double seconds = 0;
  double compute_seconds = 0;   ///< slowed by progress_cost
  double exchange_seconds = 0;  ///< the lane busy
  double exposed_seconds = 0;   ///< exchange time during which nothing was computed
};
/// The order must be sound (verify).
[[nodiscard]] Prediction predict(const StepGraph& graph, const Order& order,
                                 const PredictOptions& options = {});

/// A schedule that was chosen, and why.
struct ChosenOrder {
  Schedule schedule = Schedule::flat;
  Order order;
  Prediction prediction;
};
/// The schedule with the best prediction; on equal ones the simpler schedule.
[[nodiscard]] ChosenOrder best_order(const StepGraph& graph, const PredictOptions& options = {});

}  // namespace dit
