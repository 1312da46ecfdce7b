#include "predict/choose_order.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace dit {
namespace {

/// Estimates of exchanges may be wrong by this factor at run time: what an order is worth then counts as
/// well.
constexpr double kWrong = 2;
constexpr double kWrongWeight = 0.25;
/// Sums of the same numbers in another order are no better or worse.
constexpr double kRounding = 1e-9;

/// Keeps the best order seen.
class OrderChoice {
 public:
  explicit OrderChoice(const StepGraph& graph) : graph_(graph), best_(v_first_order(graph)) {
    bound_ = predict(graph, best_).seconds * (1 + kRounding);
    best_cost_ = cost(best_);
  }

  void consider(Order order) {
    if (predict(graph_, order).seconds > bound_) return;
    const double own = cost(order);
    if (own >= best_cost_ * (1 - kRounding)) return;
    best_ = std::move(order);
    best_cost_ = own;
  }

  Order take() { return std::move(best_); }

 private:
  [[nodiscard]] double cost(const Order& order) const {
    double sum = predict(graph_, order).seconds;
    for (const double scale : {kWrong, 1 / kWrong}) {
      PredictOptions wrong;
      wrong.exchange_scale = scale;
      sum += kWrongWeight * predict(graph_, order, wrong).seconds;
    }
    return sum;
  }

  const StepGraph& graph_;
  Order best_;
  double bound_ = 0;
  double best_cost_ = 0;
};

}  // namespace

Order pipelined_order(const StepGraph& graph) {
  const bool estimated =
      std::any_of(graph.steps.begin(), graph.steps.end(), [](const Step& step) { return step.seconds > 0; });
  if (!estimated) return interleaved_order(graph);
  OrderChoice choice(graph);
  if (graph.units > 1) {
    for (const Turns turns : {Turns{false, 0}, Turns{true, 0}, Turns{true, 1}}) {
      choice.consider(interleaved_order(graph, turns));
    }
  }
  return choice.take();
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

ChosenSchedule best_schedule(const std::vector<StepKind>& kinds, const PredictOptions& options) {
  if (kinds.empty()) throw std::invalid_argument("kinds of steps: none given, expected at least one");
  ChosenSchedule best;
  for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
    double seconds = 0;
    for (const StepKind& kind : kinds) {
      seconds += kind.share * predict(kind.graph, make_order(schedule, kind.graph), options).seconds;
    }
    if (schedule == Schedule::flat || seconds < best.seconds * (1 - kRounding)) best = {schedule, seconds};
  }
  return best;
}

}  // namespace dit
