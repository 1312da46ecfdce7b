#include "predict/replay.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace dit {
namespace {

void check(const PredictOptions& options) {
  if (!std::isfinite(options.exchange_scale) || options.exchange_scale < 0) {
    throw std::invalid_argument("exchange_scale is " + std::to_string(options.exchange_scale) +
                                ": expected 0 or more");
  }
  if (!(options.progress_cost >= 0 && options.progress_cost <= 1)) {
    throw std::invalid_argument("progress_cost is " + std::to_string(options.progress_cost) +
                                ": expected a share between 0 and 1");
  }
}

/// Time that `seconds` of computing take when the link is busy for the next `busy` seconds.
double slowed(double seconds, double busy, double progress_cost) {
  const double meanwhile = busy * (1 - progress_cost);  // computed by the time that the link is free
  if (seconds > meanwhile) return busy + seconds - meanwhile;
  return seconds > 0 ? seconds / (1 - progress_cost) : 0;
}

}  // namespace

std::vector<ReplaySpan> replay(const StepGraph& graph, const Order& order, const PredictOptions& options) {
  check(options);
  std::vector<ReplaySpan> spans;
  spans.reserve(order.size());
  std::vector<double> complete(graph.steps.size(), 0);
  double now = 0;
  double link_free = 0;  // everything started so far has left by then
  for (const Action& action : order) {
    const auto id = static_cast<std::size_t>(action.step);
    const double seconds = graph.steps[id].seconds;
    ReplaySpan span{action, now, now, 0, 0};
    switch (action.kind) {
      case Action::Kind::compute:
        now += slowed(seconds, std::max(0.0, link_free - now), options.progress_cost);
        break;
      case Action::Kind::wait:
        now = std::max(now, complete[id]);
        break;
      case Action::Kind::start:
      case Action::Kind::exchange:
        span.link_begin = std::max(now, link_free);
        span.link_end = link_free = complete[id] = span.link_begin + seconds * options.exchange_scale;
        if (action.kind == Action::Kind::exchange) now = link_free;
        break;
    }
    span.end = now;
    spans.push_back(span);
  }
  return spans;
}

Prediction predict(const StepGraph& graph, const Order& order, const PredictOptions& options) {
  Prediction prediction;
  for (const ReplaySpan& span : replay(graph, order, options)) {
    const double seconds = span.end - span.begin;
    (span.action.kind == Action::Kind::compute ? prediction.compute_seconds : prediction.exposed_seconds) +=
        seconds;
    prediction.exchange_seconds += span.link_end - span.link_begin;
    prediction.seconds = span.end;
  }
  return prediction;
}

}  // namespace dit
