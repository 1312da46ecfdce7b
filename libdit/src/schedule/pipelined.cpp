#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>

#include "schedule/list_scheduler.hpp"
#include "schedule/order.hpp"

namespace dit {
namespace {

/// Estimates of exchanges may be wrong by this factor at run time: what an order is worth then counts as
/// well.
constexpr double kWrong = 2;
constexpr double kWrongWeight = 0.25;
/// Search effort: step placements over all trials, and bounds of the number of trials.
constexpr std::size_t kPlacements = 100'000;
constexpr std::size_t kFewestTrials = 40;
constexpr std::size_t kMostTrials = 300;

/// The graph with weights where it has no estimates: computing and exchanging take equally long.
StepGraph with_estimates(const StepGraph& graph) {
  const auto known = [](const Step& step) { return step.seconds > 0; };
  if (std::any_of(graph.steps.begin(), graph.steps.end(), known)) return graph;
  StepGraph weighted = graph;
  const auto exchanges = std::count_if(graph.steps.begin(), graph.steps.end(),
                                       [](const Step& step) { return is_exchange(step.role); });
  const auto computes = static_cast<std::ptrdiff_t>(graph.steps.size()) - exchanges;
  for (Step& step : weighted.steps) {
    step.seconds = 1.0 / static_cast<double>(is_exchange(step.role) ? exchanges : computes);
  }
  return weighted;
}

/// Keeps the best order seen. The same trials on every rank: the generator is seeded and portable.
class OrderSearch {
 public:
  OrderSearch(const StepGraph& graph, int exchanges_under_way)
      : graph_(graph), exchanges_under_way_(exchanges_under_way) {
    // The simpler order keeps no limit; with none, nothing worse than it is taken.
    if (exchanges_under_way == 0) {
      Order order = v_first_order(graph);
      bound_ = predict(graph, order).seconds;
      consider(std::move(order), {});
    }
  }

  Order run() {
    for (const double scale : {1.0, kWrong}) {
      ListRule rule;
      rule.exchange_scale = scale;
      try_rule(with(rule, &ListRule::path, -1));
      try_rule(with(rule, &ListRule::unit, 1));
      try_rule(with(rule, &ListRule::ready, 1));
    }
    const std::size_t trials =
        std::clamp(kPlacements / std::max<std::size_t>(1, graph_.steps.size()), kFewestTrials, kMostTrials);
    for (std::size_t i = 0; i < trials; ++i) try_rule(i < trials / 2 ? random_rule() : neighbour(best_rule_));
    return std::move(best_);
  }

 private:
  static ListRule with(ListRule rule, double ListRule::*weight, double value) {
    rule.*weight = value;
    return rule;
  }

  void try_rule(ListRule rule) {
    rule.exchanges_under_way = exchanges_under_way_;
    consider(list_schedule(graph_, rule), rule);
  }

  void consider(Order order, const ListRule& rule) {
    const double expected = predict(graph_, order).seconds;
    if (expected > bound_) return;
    double cost = expected;
    for (const double scale : {kWrong, 1 / kWrong}) {
      PredictOptions wrong;
      wrong.exchange_scale = scale;
      cost += kWrongWeight * predict(graph_, order, wrong).seconds;
    }
    if (!best_.empty() && cost >= best_cost_) return;
    best_ = std::move(order);
    best_cost_ = cost;
    best_rule_ = rule;
  }

  /// In [0, 1), the same everywhere (the standard's distributions are not).
  double random() { return static_cast<double>(generator_()) / 4294967296.0; }
  bool coin() { return generator_() % 2 == 0; }
  double random_weight() { return coin() ? 0 : random(); }

  ListRule random_rule() {
    ListRule rule;
    for (double& weight : rule.role) weight = random_weight();
    rule.unit = random_weight();
    rule.layer = random_weight();
    rule.group = random_weight();
    rule.path = -random_weight();
    rule.ready = random_weight();
    rule.patience = random_weight();
    return rule;
  }

  /// The rule with a few weights drawn anew.
  ListRule neighbour(ListRule rule) {
    for (double& weight : rule.role) {
      if (generator_() % 6 == 0) weight = random_weight();
    }
    for (double* weight : {&rule.unit, &rule.layer, &rule.group, &rule.ready, &rule.patience}) {
      if (generator_() % 6 == 0) *weight = random_weight();
    }
    if (generator_() % 6 == 0) rule.path = -random_weight();
    return rule;
  }

  const StepGraph& graph_;
  int exchanges_under_way_;
  double bound_ = std::numeric_limits<double>::infinity();
  std::mt19937 generator_{1};
  Order best_;
  double best_cost_ = 0;
  ListRule best_rule_;
};

}  // namespace

Order pipelined_order(const StepGraph& graph, int exchanges_under_way) {
  if (exchanges_under_way < 0) {
    throw std::invalid_argument("exchanges_under_way is " + std::to_string(exchanges_under_way) +
                                ": expected 0 (no limit) or more");
  }
  return OrderSearch(with_estimates(graph), exchanges_under_way).run();
}

}  // namespace dit
