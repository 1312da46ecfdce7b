#include "schedule/list_scheduler.hpp"

#include <algorithm>
#include <limits>

namespace dit {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

template <class Container>
auto& at(Container& container, StepId id) {
  return container[static_cast<std::size_t>(id)];
}

class ListScheduler {
 public:
  ListScheduler(const StepGraph& graph, const ListRule& rule)
      : graph_(graph),
        rule_(rule),
        seconds_(graph.steps.size()),
        missing_(graph.steps.size()),
        ready_(graph.steps.size()),
        end_(graph.steps.size()),
        path_(graph.steps.size()),
        consumers_(graph.steps.size()) {
    for (std::size_t id = graph.steps.size(); id-- > 0;) prepare(static_cast<StepId>(id));
    const double longest = path_.empty() ? 0 : *std::max_element(path_.begin(), path_.end());
    layers_per_second_ = longest > 0 ? graph.layers / longest : 0;
    for (std::size_t id = 0; id < graph.steps.size(); ++id) {
      if (missing_[id] == 0) offer(static_cast<StepId>(id));
    }
  }

  Order build() {
    while (!computes_.empty() || !exchanges_.empty()) {
      const auto next = best(computes_, patience());
      if (next == computes_.end()) {
        start_exchanges();
        if (best(computes_) == computes_.end()) idle();
        continue;
      }
      start_exchanges();
      const auto again = best(computes_, patience());
      const StepId step = *again;
      computes_.erase(again);
      compute(step);
    }
    while (!under_way_.empty()) wait(under_way_.front());
    return std::move(order_);
  }

 private:
  using List = std::vector<StepId>;

  /// Called from the last step to the first.
  void prepare(StepId id) {
    const Step& step = at(graph_.steps, id);
    at(seconds_, id) = step.seconds * (is_exchange(step.role) ? rule_.exchange_scale : 1);
    double longest = 0;
    for (const StepId consumer : at(consumers_, id)) longest = std::max(longest, at(path_, consumer));
    at(path_, id) = longest + at(seconds_, id);
    at(missing_, id) = step.after.size();
    for (const StepId before : step.after) at(consumers_, before).push_back(id);
  }

  /// Smaller comes first.
  [[nodiscard]] double rank(StepId id) const {
    const Step& step = at(graph_.steps, id);
    return rule_.role[static_cast<std::size_t>(step.role)] + rule_.unit * step.unit +
           rule_.layer * step.layer + rule_.group * step.group +
           (rule_.path * at(path_, id) + rule_.ready * at(ready_, id)) * layers_per_second_;
  }

  [[nodiscard]] double patience() const {
    return layers_per_second_ > 0 ? rule_.patience / layers_per_second_ : 0;
  }

  /// The best candidate that could begin now, or in `patience` seconds; or the end.
  [[nodiscard]] List::iterator best(List& candidates, double patience = 0) const {
    auto chosen = candidates.end();
    double chosen_rank = 0;
    for (auto candidate = candidates.begin(); candidate != candidates.end(); ++candidate) {
      if (at(ready_, *candidate) > now_ + patience) continue;
      const double own_rank = rank(*candidate);
      const bool better = chosen == candidates.end() || own_rank < chosen_rank ||
                          (own_rank == chosen_rank && *candidate < *chosen);
      if (!better) continue;
      chosen = candidate;
      chosen_rank = own_rank;
    }
    return chosen;
  }

  /// All that a step needs is complete, or under way with a known end.
  void offer(StepId id) {
    for (const StepId before : at(graph_.steps, id).after) {
      at(ready_, id) = std::max(at(ready_, id), at(end_, before));
    }
    (is_exchange(at(graph_.steps, id).role) ? exchanges_ : computes_).push_back(id);
  }

  /// A step has a known end: its consumers may have become candidates.
  void known(StepId id, double end) {
    at(end_, id) = end;
    for (const StepId consumer : at(consumers_, id)) {
      if (--at(missing_, consumer) == 0) offer(consumer);
    }
  }

  void wait(StepId exchange) {
    order_.push_back({Action::Kind::wait, exchange});
    now_ = std::max(now_, at(end_, exchange));
    std::erase(under_way_, exchange);
  }

  void wait_for_inputs(StepId id) {
    const auto& after = at(graph_.steps, id).after;
    const List started = under_way_;  // in the order in which they complete
    for (const StepId exchange : started) {
      if (std::find(after.begin(), after.end(), exchange) != after.end()) wait(exchange);
    }
  }

  void compute(StepId id) {
    wait_for_inputs(id);
    order_.push_back({Action::Kind::compute, id});
    now_ += at(seconds_, id);
    known(id, now_);
  }

  /// Whether one more exchange may be under way; waits for one that is complete when that makes room.
  bool make_room() {
    if (rule_.exchanges_under_way == 0) return true;
    if (under_way_.size() < static_cast<std::size_t>(rule_.exchanges_under_way)) return true;
    if (at(end_, under_way_.front()) > now_) return false;
    wait(under_way_.front());
    return true;
  }

  /// Starts what can start, best first. At once: a link that stood still is never made up for.
  void start_exchanges() {
    for (auto next = best(exchanges_); next != exchanges_.end(); next = best(exchanges_)) {
      if (!make_room()) return;
      const StepId id = *next;
      exchanges_.erase(next);
      wait_for_inputs(id);
      order_.push_back({Action::Kind::start, id});
      under_way_.push_back(id);
      link_free_ = std::max(now_, link_free_) + at(seconds_, id);
      known(id, link_free_);
    }
  }

  /// Nothing can be computed now: on to the next moment at which something changes.
  void idle() {
    double next = kNever;
    for (const List* candidates : {&computes_, &exchanges_}) {
      for (const StepId id : *candidates) {
        if (at(ready_, id) > now_) next = std::min(next, at(ready_, id));
      }
    }
    for (const StepId exchange : under_way_) {
      if (at(end_, exchange) > now_) next = std::min(next, at(end_, exchange));
    }
    now_ = next;
  }

  const StepGraph& graph_;
  const ListRule& rule_;
  std::vector<double> seconds_;
  std::vector<std::size_t> missing_;  ///< inputs whose end is not known yet
  std::vector<double> ready_;         ///< when all inputs are complete
  std::vector<double> end_;
  std::vector<double> path_;  ///< longest way from the step's begin to the graph's end
  std::vector<List> consumers_;
  List computes_;   ///< all inputs computed or under way
  List exchanges_;  ///< the same
  List under_way_;  ///< started and not waited for, in order
  Order order_;
  double now_ = 0;
  double link_free_ = 0;
  double layers_per_second_ = 0;
};

}  // namespace

Order list_schedule(const StepGraph& graph, const ListRule& rule) {
  return ListScheduler(graph, rule).build();
}

}  // namespace dit
