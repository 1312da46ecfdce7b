#include <algorithm>
#include <stdexcept>

#include "schedule/list_scheduler.hpp"
#include "schedule/order.hpp"

namespace dit {
namespace {

/// Orders whose predictions differ by less are equally good; then robustness decides.
constexpr double kNearlyEqual = 1.01;
/// How wrong estimates of exchanges should be allowed to be.
constexpr double kSlowExchanges = 2;

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

/// An order with what it promises.
struct Candidate {
  Order order;
  double expected = 0;
  double slow = 0;  ///< when exchanges take longer than estimated
};

Candidate judged(const StepGraph& graph, Order order) {
  PredictOptions slow;
  slow.exchange_scale = kSlowExchanges;
  const double expected = predict(graph, order).seconds;
  const double late = predict(graph, order, slow).seconds;
  return {std::move(order), expected, late};
}

std::vector<Candidate> candidates_of(const StepGraph& graph, int exchanges_under_way) {
  std::vector<double> seconds;
  for (const Step& step : graph.steps) seconds.push_back(step.seconds);
  std::vector<Candidate> candidates;
  // The simpler order keeps no limit.
  if (exchanges_under_way == 0) candidates.push_back(judged(graph, v_first_order(graph)));
  for (const auto priority :
       {ListRule::Priority::longest_path, ListRule::Priority::unit_first, ListRule::Priority::oldest}) {
    for (const bool eager : {true, false}) {
      for (const double scale : {1.0, kSlowExchanges}) {
        const ListRule rule{priority, eager, scale, exchanges_under_way};
        candidates.push_back(judged(graph, list_schedule(graph, seconds, rule)));
      }
    }
  }
  return candidates;
}

}  // namespace

Order pipelined_order(const StepGraph& graph, int exchanges_under_way) {
  if (exchanges_under_way < 0) {
    throw std::invalid_argument("exchanges_under_way is " + std::to_string(exchanges_under_way) +
                                ": expected 0 (no limit) or more");
  }
  std::vector<Candidate> candidates = candidates_of(with_estimates(graph), exchanges_under_way);
  double best = candidates.front().expected;
  for (const Candidate& candidate : candidates) best = std::min(best, candidate.expected);
  // The first candidate is V-First unless there is a limit: no worse than that, however nearly equal.
  const double bound = std::min(best * kNearlyEqual, std::max(best, candidates.front().expected));
  Candidate* chosen = nullptr;
  for (Candidate& candidate : candidates) {
    if (candidate.expected > bound) continue;
    if (chosen == nullptr || candidate.slow < chosen->slow) chosen = &candidate;
  }
  return std::move(chosen->order);
}

}  // namespace dit
