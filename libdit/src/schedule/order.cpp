#include "schedule/order.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dit {
namespace {

constexpr Schedule kSchedules[] = {Schedule::flat, Schedule::v_first, Schedule::pipelined};

template <class Container>
auto& at(Container& container, StepId id) {
  return container[static_cast<std::size_t>(id)];
}

/// Computes in a given order; exchanges leave when they can and are waited for when something needs them.
class Overlap {
 public:
  explicit Overlap(const StepGraph& graph) : graph_(graph), states_(graph.steps.size()) {
    consumers_.resize(graph.steps.size());
    for (std::size_t id = 0; id < graph.steps.size(); ++id) {
      for (const StepId before : graph.steps[id].after)
        at(consumers_, before).push_back(static_cast<StepId>(id));
    }
  }

  Order build(const std::vector<StepId>& computes) {
    for (const StepId step : computes) compute(step);
    // What nobody consumes is still waited for.
    for (std::size_t id = 0; id < graph_.steps.size(); ++id) complete(static_cast<StepId>(id));
    return std::move(order_);
  }

 private:
  enum class State : std::uint8_t { open, under_way, complete };

  void compute(StepId step) {
    for (const StepId before : at(graph_.steps, step).after) complete(before);
    order_.push_back({Action::Kind::compute, step});
    at(states_, step) = State::complete;
    for (const StepId exchange : at(consumers_, step)) {
      if (is_exchange(at(graph_.steps, exchange).role) && inputs_complete(exchange)) start(exchange);
    }
  }

  [[nodiscard]] bool inputs_complete(StepId exchange) const {
    const auto& after = at(graph_.steps, exchange).after;
    return std::all_of(after.begin(), after.end(),
                       [&](StepId id) { return at(states_, id) == State::complete; });
  }

  void start(StepId exchange) {
    if (at(states_, exchange) != State::open) return;
    for (const StepId before : at(graph_.steps, exchange).after) complete(before);
    order_.push_back({Action::Kind::start, exchange});
    at(states_, exchange) = State::under_way;
  }

  void complete(StepId step) {
    if (at(states_, step) == State::complete) return;
    start(step);
    order_.push_back({Action::Kind::wait, step});
    at(states_, step) = State::complete;
  }

  const StepGraph& graph_;
  std::vector<State> states_;
  std::vector<std::vector<StepId>> consumers_;
  Order order_;
};

using Turn = std::vector<StepId>;

bool waits_for_exchange(const StepGraph& graph, const Step& step) {
  return std::any_of(step.after.begin(), step.after.end(),
                     [&](StepId before) { return is_exchange(at(graph.steps, before).role); });
}

/// All of an attention, its head groups, is one turn.
bool begins_turn(const StepGraph& graph, const Step& previous, const Step& step, bool blocks_apart) {
  if (blocks_apart && previous.layer != step.layer) return true;
  const bool goes_on = previous.role == StepRole::attention && step.role == StepRole::attention;
  return !goes_on && waits_for_exchange(graph, step);
}

/// What each unit computes, by id.
std::vector<std::vector<Turn>> turns_of_units(const StepGraph& graph, bool blocks_apart) {
  std::vector<std::vector<Turn>> units(static_cast<std::size_t>(graph.units));
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    const Step& step = graph.steps[id];
    if (is_exchange(step.role)) continue;
    std::vector<Turn>& turns = units[static_cast<std::size_t>(step.unit)];
    if (turns.empty() || begins_turn(graph, at(graph.steps, turns.back().back()), step, blocks_apart)) {
      turns.emplace_back();
    }
    turns.back().push_back(static_cast<StepId>(id));
  }
  return units;
}

}  // namespace

Order flat_order(const StepGraph& graph) {
  Order order;
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    const bool exchange = is_exchange(graph.steps[id].role);
    order.push_back({exchange ? Action::Kind::exchange : Action::Kind::compute, static_cast<StepId>(id)});
  }
  return order;
}

Order v_first_order(const StepGraph& graph) {
  std::vector<StepId> computes;
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    if (!is_exchange(graph.steps[id].role)) computes.push_back(static_cast<StepId>(id));
  }
  return Overlap(graph).build(computes);
}

Order interleaved_order(const StepGraph& graph, const Turns& turns) {
  if (turns.behind < 0) {
    throw std::invalid_argument("behind is " + std::to_string(turns.behind) + ": expected 0 or more turns");
  }
  const auto units = turns_of_units(graph, turns.blocks_apart);
  const auto behind = static_cast<std::size_t>(turns.behind);
  std::size_t rounds = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    rounds = std::max(rounds, units[unit].size() + unit * behind);
  }
  std::vector<StepId> computes;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const std::size_t turn = round - unit * behind;  // of a unit that has not begun: beyond its last
      if (turn < units[unit].size()) {
        computes.insert(computes.end(), units[unit][turn].begin(), units[unit][turn].end());
      }
    }
  }
  return Overlap(graph).build(computes);
}

const char* to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::flat:
      return "flat";
    case Schedule::v_first:
      return "v-first";
    case Schedule::pipelined:
      return "pipelined";
  }
  return "unknown";
}

Schedule parse_schedule(std::string_view name) {
  std::string names;
  for (const Schedule schedule : kSchedules) {
    if (name == to_string(schedule)) return schedule;
    names += (names.empty() ? "" : ", ") + std::string(to_string(schedule));
  }
  throw std::invalid_argument("schedule \"" + std::string(name) + "\" is not known: expected one of " +
                              names);
}

}  // namespace dit
