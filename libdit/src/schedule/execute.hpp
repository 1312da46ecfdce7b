/// Carries out an order: computes, starts and waits, and measures what was exposed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "schedule/order.hpp"

namespace dit {

/// What an engine supplies for the steps of a graph.
class StepWork {
 public:
  virtual ~StepWork() = default;
  virtual void compute(StepId step) = 0;
  /// Copies what an exchange sends into its buffer, just before start. Counted as compute.
  virtual void pack(StepId /*step*/) {}
  /// Starts an exchange. `blocking`: it may run to its end here (the baseline), and counts as exposed.
  [[nodiscard]] virtual ExchangeRequest start(StepId step, bool blocking) = 0;
  /// After the exchange's wait: unpacks.
  virtual void arrived(StepId step) = 0;
};

/// One span on a rank's time line. Seconds since `epoch` of the trace.
struct TraceSpan {
  enum class Lane : std::uint8_t { compute, exchange, wait };
  Lane lane = Lane::compute;
  StepId step = 0;
  int forward = 0;  ///< which forward pass
  double begin = 0;
  double end = 0;  ///< exchange lane: start until known complete
};
[[nodiscard]] const char* to_string(TraceSpan::Lane lane);

/// Spans of one rank. Not thread-safe: one per rank.
struct Trace {
  std::chrono::steady_clock::time_point epoch = std::chrono::steady_clock::now();
  std::vector<TraceSpan> spans;
};

/// Time of one forward pass on this rank.
struct ExecutionTimes {
  double seconds = 0;
  double compute_seconds = 0;  ///< in compute, packing and unpacking included
  double exposed_seconds = 0;  ///< in wait, and in blocking exchanges
  std::uint64_t exchanges = 0;
  std::vector<double> step_seconds;  ///< by step: compute time, or start-to-known-complete of exchanges
};

/// `trace` may be null. Exceptions of the work pass through after what is under way was waited for. Throws
/// std::invalid_argument with verify's words for an order that is not sound.
[[nodiscard]] ExecutionTimes execute(const StepGraph& graph, const Order& order, StepWork& work,
                                     Trace* trace = nullptr, int forward = 0);

/// Chrome trace events (chrome://tracing, Perfetto) of several ranks on one clock: a process for each rank,
/// threads for compute, wait and exchanges (several when exchanges overlap). `graphs`: one for each rank, or
/// one for all. `offsets[r]` seconds are added to rank r's times; empty: none. Throws std::invalid_argument
/// when sizes or step ids do not fit.
[[nodiscard]] std::string chrome_trace(const std::vector<StepGraph>& graphs, const std::vector<Trace>& ranks,
                                       const std::vector<double>& offsets);

}  // namespace dit
