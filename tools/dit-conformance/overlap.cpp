// Progress while the rank computes. How much is hidden depends on the machine, so this reports and does not
// judge.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "checks.hpp"
#include "known_exchange.hpp"

namespace dit::conformance {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms", 1e3 * seconds);
  return text;
}

void compute_for(double seconds) {
  const auto begin = Clock::now();
  while (seconds_since(begin) < seconds) {
  }
}

void progress(ExchangeContext& context, Findings& findings) {
  const Shape shape{[](int, int) { return std::size_t{64} << 10; }};
  KnownExchange warm(context, shape, 1), alone(context, shape, 2), hidden(context, shape, 3);
  context.start(warm.call()).wait();
  context.barrier();
  const auto begin = Clock::now();
  context.start(alone.call()).wait();
  const double alone_seconds = seconds_since(begin);

  context.barrier();
  const auto before_start = Clock::now();
  ExchangeRequest request = context.start(hidden.call());
  const double start_seconds = seconds_since(before_start);
  compute_for(std::clamp(10 * alone_seconds, 0.005, 1.0));
  const auto before_wait = Clock::now();
  request.wait();
  const double exposed = start_seconds + seconds_since(before_wait);
  findings.problem(hidden.problem());
  findings.note("64 KiB for each pair: " + milliseconds(alone_seconds) + " alone; beside computation " +
                milliseconds(exposed) + " exposed, of these " + milliseconds(start_seconds) + " in start");
}

}  // namespace

std::vector<Check> overlap_checks() {
  return {{"progress while computing (a report)", progress}};
}

}  // namespace dit::conformance
