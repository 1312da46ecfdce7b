/// Orders of a step graph: what a rank does one after the other. Pure and deterministic: all ranks make the
/// same order from the same graph, as exchanges must start in the same order everywhere. Which order to take
/// is predict/choose_order.hpp's.
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
/// Units in turns: while one's exchanges are under way another computes; exchanges as in v_first_order, which
/// this is for one unit. Needs no estimates.
struct Turns {
  bool blocks_apart =
      false;       ///< a turn also ends where a block does, not only where exchanges are waited for
  int behind = 0;  ///< so many turns each unit is behind the one before it
};
[[nodiscard]] Order interleaved_order(const StepGraph& graph, const Turns& turns = {});

enum class Schedule { flat, v_first, pipelined };
[[nodiscard]] Schedule parse_schedule(
    std::string_view name);  ///< throws std::invalid_argument that lists the names
[[nodiscard]] const char* to_string(Schedule schedule);

/// Empty when every step is done once, after what it depends on, and every start is waited for; else what is
/// wrong.
[[nodiscard]] std::string verify(const StepGraph& graph, const Order& order);

}  // namespace dit
