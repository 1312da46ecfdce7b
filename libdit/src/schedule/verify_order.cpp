#include "schedule/order.hpp"

namespace dit {
namespace {

/// Follows an order and tells the first thing that is wrong.
class OrderCheck {
 public:
  explicit OrderCheck(const StepGraph& graph) : graph_(graph), states_(graph.steps.size(), State::open) {}

  /// What is wrong with the next action, or nothing.
  std::string apply(const Action& action) {
    if (action.step < 0 || static_cast<std::size_t>(action.step) >= graph_.steps.size()) {
      return "no such step";
    }
    State& state = states_[static_cast<std::size_t>(action.step)];
    if (action.kind == Action::Kind::wait) {
      if (state != State::under_way)
        return state == State::open ? "it was not started" : "it is complete already";
      state = State::complete;
      return {};
    }
    const bool exchange = is_exchange(graph_.steps[static_cast<std::size_t>(action.step)].role);
    if (exchange == (action.kind == Action::Kind::compute)) {
      return exchange ? "an exchange cannot be computed" : "it is not an exchange";
    }
    if (state != State::open) return "it is done twice";
    for (const StepId before : graph_.steps[static_cast<std::size_t>(action.step)].after) {
      if (states_[static_cast<std::size_t>(before)] != State::complete)
        return "needs " + name(before) + missing(before);
    }
    state = action.kind == Action::Kind::start ? State::under_way : State::complete;
    return {};
  }

  /// What is wrong after the last action.
  [[nodiscard]] std::string at_end() const {
    for (std::size_t id = 0; id < states_.size(); ++id) {
      if (states_[id] != State::complete) {
        const auto step = static_cast<StepId>(id);
        return name(step) +
               (states_[id] == State::open ? " is never done" : " is started and never waited for");
      }
    }
    return {};
  }

  [[nodiscard]] std::string name(StepId step) const {
    if (step < 0 || static_cast<std::size_t>(step) >= graph_.steps.size())
      return "step " + std::to_string(step);
    return "step " + std::to_string(step) + " (" + step_name(graph_.steps[static_cast<std::size_t>(step)]) +
           ")";
  }

 private:
  enum class State : std::uint8_t { open, under_way, complete };

  [[nodiscard]] const char* missing(StepId before) const {
    return states_[static_cast<std::size_t>(before)] == State::open ? ", which comes later"
                                                                    : ", which was not waited for";
  }

  const StepGraph& graph_;
  std::vector<State> states_;
};

const char* to_string(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::compute:
      return "compute";
    case Action::Kind::start:
      return "start";
    case Action::Kind::wait:
      return "wait";
    case Action::Kind::exchange:
      return "exchange";
  }
  return "unknown";
}

}  // namespace

std::string verify(const StepGraph& graph, const Order& order) {
  std::string fault = verify(graph);
  if (!fault.empty()) return fault;
  OrderCheck check(graph);
  for (std::size_t i = 0; i < order.size(); ++i) {
    fault = check.apply(order[i]);
    if (!fault.empty()) {
      return "action " + std::to_string(i) + ", " + to_string(order[i].kind) + " of " +
             check.name(order[i].step) + ": " + fault;
    }
  }
  return check.at_end();
}

}  // namespace dit
