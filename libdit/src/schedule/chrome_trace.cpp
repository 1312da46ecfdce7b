#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "schedule/execute.hpp"

namespace dit {
namespace {

using Json = nlohmann::json;

constexpr int kComputeThread = 0;
constexpr int kWaitThread = 1;
constexpr int kExchangeThread = 2;  // and the following: spans of one thread must not overlap

/// Threads of the exchange lane: each span goes to the first one that is free.
class ExchangeThreads {
 public:
  int thread_for(const TraceSpan& span) {
    auto free = std::find_if(ends_.begin(), ends_.end(), [&](double end) { return end <= span.begin; });
    if (free == ends_.end()) free = ends_.insert(free, 0);
    *free = span.end;
    return kExchangeThread + static_cast<int>(free - ends_.begin());
  }
  [[nodiscard]] std::size_t count() const { return ends_.size(); }

 private:
  std::vector<double> ends_;
};

Json name_event(const char* what, std::size_t rank, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// Packing and unpacking are computed on behalf of an exchange.
std::string name_of(const Step& step, TraceSpan::Lane lane) {
  const bool copies = lane == TraceSpan::Lane::compute && is_exchange(step.role);
  return (copies ? "copies of " : "") + step_name(step);
}

Json span_event(const TraceSpan& span, const Step& step, std::size_t rank, int thread, double offset) {
  constexpr double kMicroseconds = 1e6;
  Json args = {
      {"role", to_string(step.role)}, {"unit", step.unit}, {"layer", step.layer}, {"forward", span.forward}};
  if (is_exchange(step.role)) args.update({{"group", step.group}, {"slow_bytes", step.slow_bytes}});
  return {{"ph", "X"},
          {"name", name_of(step, span.lane)},
          {"cat", to_string(span.lane)},
          {"pid", rank},
          {"tid", thread},
          {"ts", (span.begin + offset) * kMicroseconds},
          {"dur", (span.end - span.begin) * kMicroseconds},
          {"args", std::move(args)}};
}

const Step& step_of(const TraceSpan& span, const StepGraph& graph, std::size_t rank) {
  if (span.step < 0 || static_cast<std::size_t>(span.step) >= graph.steps.size()) {
    throw std::invalid_argument("trace of rank " + std::to_string(rank) + " has a span of step " +
                                std::to_string(span.step) + ": its graph has " +
                                std::to_string(graph.steps.size()) + " steps");
  }
  return graph.steps[static_cast<std::size_t>(span.step)];
}

void add_rank(Json& events, const StepGraph& graph, const Trace& trace, std::size_t rank, double offset) {
  events.push_back(name_event("process_name", rank, kComputeThread, "rank " + std::to_string(rank)));
  events.push_back(name_event("thread_name", rank, kComputeThread, "compute"));
  events.push_back(name_event("thread_name", rank, kWaitThread, "wait"));
  std::vector<TraceSpan> spans = trace.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; });
  ExchangeThreads exchanges;
  for (const TraceSpan& span : spans) {
    const int thread = span.lane == TraceSpan::Lane::compute ? kComputeThread
                       : span.lane == TraceSpan::Lane::wait  ? kWaitThread
                                                             : exchanges.thread_for(span);
    events.push_back(span_event(span, step_of(span, graph, rank), rank, thread, offset));
  }
  for (std::size_t i = 0; i < exchanges.count(); ++i) {
    const std::string name = i == 0 ? "exchange" : "exchange " + std::to_string(i + 1);
    events.push_back(name_event("thread_name", rank, kExchangeThread + static_cast<int>(i), name));
  }
}

}  // namespace

const char* to_string(TraceSpan::Lane lane) {
  switch (lane) {
    case TraceSpan::Lane::compute:
      return "compute";
    case TraceSpan::Lane::exchange:
      return "exchange";
    case TraceSpan::Lane::wait:
      return "wait";
  }
  return "unknown";
}

std::string chrome_trace(const std::vector<StepGraph>& graphs, const std::vector<Trace>& ranks,
                         const std::vector<double>& offsets) {
  if (graphs.size() != 1 && graphs.size() != ranks.size()) {
    throw std::invalid_argument("graphs of a trace: " + std::to_string(graphs.size()) + " for " +
                                std::to_string(ranks.size()) + " ranks, expected one, or one for each rank");
  }
  if (!offsets.empty() && offsets.size() != ranks.size()) {
    throw std::invalid_argument("offsets of a trace: " + std::to_string(offsets.size()) + " for " +
                                std::to_string(ranks.size()) + " ranks, expected none, or one for each rank");
  }
  Json events = Json::array();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const StepGraph& graph = graphs.size() == 1 ? graphs.front() : graphs[rank];
    add_rank(events, graph, ranks[rank], rank, offsets.empty() ? 0 : offsets[rank]);
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

}  // namespace dit
