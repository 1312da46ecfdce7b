#include "trace_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <vector>

#include "report.hpp"

namespace dit::tool {

namespace {

constexpr std::size_t rounds = 16;

/// What tells whether two ranks read the same clock, and what the clock showed as each barrier let the rank
/// go.
struct ClockReading {
  std::array<char, 40> boot{};  ///< the running kernel's id: one for all processes of a machine
  double epoch = 0;             ///< of the trace, on this machine's clock
  std::array<double, rounds> barriers{};
};

double seconds_of(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

ClockReading read_clock(const Member& member, const Trace& trace) {
  ClockReading reading;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(reading.boot.data(), reading.boot.size() - 1);
  reading.epoch = seconds_of(trace.epoch);
  for (double& time : reading.barriers) {
    member.barrier();
    time = seconds_of(std::chrono::steady_clock::now());
  }
  return reading;
}

/// Seconds to add to a rank's times so that they count from rank 0's epoch. Ranks leave a barrier at nearly
/// the same moment: the median difference of their clocks there is the clocks' distance, to a link's latency.
double offset_of(const ClockReading& rank, const ClockReading& first) {
  double distance = 0;
  if (rank.boot != first.boot) {
    std::vector<double> differences;
    for (std::size_t i = 0; i < rounds; ++i) differences.push_back(first.barriers[i] - rank.barriers[i]);
    distance = median(differences);
  }
  return rank.epoch + distance - first.epoch;
}

}  // namespace

std::string joint_trace(const Member& member, const GenerateResult& own) {
  const ClockReading reading = read_clock(member, own.trace);
  const auto readings = member.gather_values(std::span<const ClockReading>(&reading, 1));
  const auto spans = member.gather_values(std::span<const TraceSpan>(own.trace.spans));
  if (!member.leads()) return "";
  std::vector<Trace> traces;
  std::vector<double> offsets;
  for (std::size_t rank = 0; rank < spans.size(); ++rank) {
    traces.push_back({own.trace.epoch, spans[rank]});
    offsets.push_back(offset_of(readings[rank].front(), readings.front().front()));
  }
  return chrome_trace({own.graph}, traces, offsets);
}

}  // namespace dit::tool
