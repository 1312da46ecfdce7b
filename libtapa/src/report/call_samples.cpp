#include "report/call_samples.hpp"

#include <algorithm>

#include "run/locked.hpp"

namespace tapa {

namespace {

/// Calls are kept in this order, as good as random.
std::uint64_t order_of(std::uint64_t communicator, std::uint64_t call) {
  std::uint64_t x = communicator * 0x9e3779b97f4a7c15 + call;
  for (const std::uint64_t factor : {0xbf58476d1ce4e5b9, 0x94d049bb133111eb}) x = (x ^ x >> 30) * factor;
  return x ^ x >> 31;
}

bool goes_later(const CallSample& a, const CallSample& b) {
  return order_of(a.communicator, a.call) < order_of(b.communicator, b.call);
}

}  // namespace

bool CallSamples::wants(std::uint64_t communicator, std::uint64_t call) const {
  if (samples_.size() < kMost) return true;
  const CallSample& first = samples_.front();
  return order_of(communicator, call) < order_of(first.communicator, first.call);
}

void CallSamples::add(const CallSample& sample) {
  if (!wants(sample.communicator, sample.call)) return;
  if (samples_.size() == kMost) {
    std::ranges::pop_heap(samples_, goes_later);
    samples_.pop_back();
  }
  samples_.push_back(sample);
  std::ranges::push_heap(samples_, goes_later);
}

bool wants_sample(std::uint64_t communicator, std::uint64_t call) {
  return locked<CallSamples>()->wants(communicator, call);
}

void keep_sample(const CallSample& sample) {
  locked<CallSamples>()->add(sample);
}

std::vector<CallSample> kept_samples(std::size_t most) {
  std::vector<CallSample> samples = locked<CallSamples>()->samples();
  std::ranges::sort(samples, goes_later);
  samples.resize(std::min(most, samples.size()));
  return samples;
}

}  // namespace tapa
