#include "schedule/execute.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Exchanges under way, waited for in the order of their starts whatever happens.
class UnderWay {
 public:
  struct Entry {
    StepId step;
    Clock::time_point started;
    ExchangeRequest request;
  };

  UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    for (Entry& entry : entries_) ExchangeRequest(std::move(entry.request));  // waits
  }

  void add(StepId step, Clock::time_point started, ExchangeRequest request) {
    entries_.push_back({step, started, std::move(request)});
  }
  /// The order was verified: the exchange is there.
  Entry take(StepId step) {
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.step == step; });
    Entry taken = std::move(*entry);
    entries_.erase(entry);
    return taken;
  }

 private:
  std::vector<Entry> entries_;
};

/// One forward pass.
class Execution {
 public:
  Execution(const StepGraph& graph, StepWork& work, Trace* trace, int forward)
      : work_(work), trace_(trace), forward_(forward) {
    times_.step_seconds.resize(graph.steps.size(), 0);
  }

  ExecutionTimes run(const Order& order) {
    const Clock::time_point begin = Clock::now();
    for (const Action& action : order) act(action);
    times_.seconds = seconds_between(begin, Clock::now());
    return std::move(times_);
  }

 private:
  void act(const Action& action) {
    const StepId step = action.step;
    switch (action.kind) {
      case Action::Kind::compute:
        seconds_of(step) = busy(step, [&] { work_.compute(step); });
        break;
      case Action::Kind::start: {
        busy(step, [&] { work_.pack(step); });
        const Clock::time_point started = Clock::now();
        busy(step, [&] { under_way_.add(step, started, work_.start(step, false)); });
        break;
      }
      case Action::Kind::wait:
        finish(under_way_.take(step));
        break;
      case Action::Kind::exchange: {
        busy(step, [&] { work_.pack(step); });
        const Clock::time_point started = Clock::now();
        finish({step, started, work_.start(step, true)}, started);
        break;
      }
    }
  }

  /// Waits for an exchange that has kept this rank from computing since `idle`.
  void finish(UnderWay::Entry entry, Clock::time_point idle = Clock::now()) {
    entry.request.wait();
    const Clock::time_point end = Clock::now();
    times_.exposed_seconds += seconds_between(idle, end);
    seconds_of(entry.step) = seconds_between(entry.started, end);
    ++times_.exchanges;
    record(TraceSpan::Lane::wait, entry.step, idle, end);
    record(TraceSpan::Lane::exchange, entry.step, entry.started, end);
    busy(entry.step, [&] { work_.arrived(entry.step); });
  }

  template <class Work>
  double busy(StepId step, Work&& work) {
    const Clock::time_point begin = Clock::now();
    work();
    const Clock::time_point end = Clock::now();
    record(TraceSpan::Lane::compute, step, begin, end);
    times_.compute_seconds += seconds_between(begin, end);
    return seconds_between(begin, end);
  }

  double& seconds_of(StepId step) { return times_.step_seconds[static_cast<std::size_t>(step)]; }

  void record(TraceSpan::Lane lane, StepId step, Clock::time_point begin, Clock::time_point end) {
    if (trace_ == nullptr) return;
    trace_->spans.push_back(
        {lane, step, forward_, seconds_between(trace_->epoch, begin), seconds_between(trace_->epoch, end)});
  }

  StepWork& work_;
  Trace* trace_;
  int forward_;
  ExecutionTimes times_;
  UnderWay under_way_;
};

}  // namespace

ExecutionTimes execute(const StepGraph& graph, const Order& order, StepWork& work, Trace* trace,
                       int forward) {
  const std::string fault = verify(graph, order);
  if (!fault.empty()) throw std::invalid_argument("order of steps: " + fault);
  return Execution(graph, work, trace, forward).run(order);
}

}  // namespace dit
