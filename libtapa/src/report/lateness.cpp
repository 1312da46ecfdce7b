#include "report/lateness.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace tapa {

namespace {

struct Timed {
  CallSample sample;
  int rank;
};

/// What is counted of a rank, over calls in which others waited for the last one.
struct Count {
  std::size_t calls = 0;
  std::size_t last = 0;
  double by_chance = 0;  // calls in which it would be the last one if all ranks were alike,
  double variance = 0;   // of their number
  double waited = 0;     // for it, in the mean of the others, summed
};

bool is_alike(std::span<const Timed> call) {
  constexpr double most = 1.25;
  const auto [least, greatest] = std::ranges::minmax(call, {}, [](const Timed& t) { return t.sample.bytes; });
  return call.size() > 1 && call.size() == call.front().sample.ranks &&
         static_cast<double>(greatest.sample.bytes) <= most * static_cast<double>(least.sample.bytes);
}

void add_call(std::span<const Timed> call, Lateness& sum, std::vector<Count>& counts) {
  if (!is_alike(call)) return;
  const Timed& last = *std::ranges::min_element(call, {}, [](const Timed& t) { return t.sample.seconds; });
  const double transfer = last.sample.seconds;
  double waiting = 0;
  for (const Timed& t : call) waiting += t.sample.seconds - transfer;
  ++sum.calls;
  sum.waiting += waiting;
  sum.transfer += transfer * static_cast<double>(call.size());
  const double each = waiting / static_cast<double>(call.size() - 1);
  if (each < transfer) return;  // somebody always is the last one
  for (const Timed& t : call) {
    Count& count = counts[static_cast<std::size_t>(t.rank)];
    ++count.calls;
    const double chance = 1 / static_cast<double>(call.size());
    count.by_chance += chance;
    count.variance += chance * (1 - chance);
  }
  Count& count = counts[static_cast<std::size_t>(last.rank)];
  ++count.last;
  count.waited += each;
}

/// Far more often than chance and unlike most others.
bool is_late(const Count& count) {
  constexpr std::size_t least = 8;
  const auto last = static_cast<double>(count.last);
  const double more = last - count.by_chance;
  const double rest = static_cast<double>(count.calls) - count.by_chance;
  return count.last >= least && more > 0 && more * more > 25 * count.variance &&
         (more > 2 * count.by_chance || more > rest / 3);
}

}  // namespace

Lateness find_lateness(std::span<const std::vector<CallSample>> samples) {
  std::vector<Timed> all;
  for (std::size_t r = 0; r < samples.size(); ++r) {
    for (const CallSample& sample : samples[r]) all.push_back({sample, static_cast<int>(r)});
  }
  const auto key = [](const Timed& t) { return std::tuple(t.sample.communicator, t.sample.call, t.rank); };
  std::ranges::sort(all, {}, key);
  Lateness result;
  std::vector<Count> counts(samples.size());
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(begin, all.end(), [&](const Timed& t) {
      return t.sample.communicator != begin->sample.communicator || t.sample.call != begin->sample.call;
    });
    add_call({begin, end}, result, counts);
    begin = end;
  }
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const Count& count = counts[r];
    if (is_late(count))
      result.late.push_back(
          {static_cast<int>(r), count.last, count.calls, count.waited / static_cast<double>(count.last)});
  }
  std::ranges::stable_sort(result.late, std::greater<>(), &Lateness::Rank::last);
  return result;
}

}  // namespace tapa
