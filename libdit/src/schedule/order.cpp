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

/// Computes by id; exchanges leave when they can.
class VFirst {
 public:
  explicit VFirst(const StepGraph& graph) : graph_(graph), states_(graph.steps.size()) {
    consumers_.resize(graph.steps.size());
    for (std::size_t id = 0; id < graph.steps.size(); ++id) {
      for (const StepId before : graph.steps[id].after)
        at(consumers_, before).push_back(static_cast<StepId>(id));
    }
  }

  Order build() {
    for (std::size_t id = 0; id < graph_.steps.size(); ++id) {
      if (!is_exchange(graph_.steps[id].role)) compute(static_cast<StepId>(id));
    }
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
  return VFirst(graph).build();
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

Order make_order(Schedule schedule, const StepGraph& graph) {
  switch (schedule) {
    case Schedule::flat:
      return flat_order(graph);
    case Schedule::v_first:
      return v_first_order(graph);
    case Schedule::pipelined:
      return pipelined_order(graph);
  }
  throw std::invalid_argument("schedule number " + std::to_string(static_cast<int>(schedule)) +
                              " does not exist");
}

ChosenOrder best_order(const StepGraph& graph, const PredictOptions& options) {
  ChosenOrder best;
  for (const Schedule schedule : kSchedules) {
    Order order = make_order(schedule, graph);
    const Prediction prediction = predict(graph, order, options);
    if (best.order.empty() || prediction.seconds < best.prediction.seconds) {
      best = {schedule, std::move(order), prediction};
    }
  }
  return best;
}

}  // namespace dit
