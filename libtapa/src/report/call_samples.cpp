#include "report/call_samples.hpp"

#include <algorithm>
#include <mutex>

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

/// Never destroyed: MPI may end after static objects do.
struct Kept {
  std::mutex mutex;
  CallSamples samples;
};

Kept& kept() {
  static auto* const instance = new Kept;
  return *instance;
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
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  return k.samples.wants(communicator, call);
}

void keep_sample(const CallSample& sample) {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  k.samples.add(sample);
}

std::vector<CallSample> kept_samples(std::size_t most) {
  Kept& k = kept();
  std::vector<CallSample> samples;
  {
    const std::lock_guard lock(k.mutex);
    samples = k.samples.samples();
  }
  std::ranges::sort(samples, goes_later);
  samples.resize(std::min(most, samples.size()));
  return samples;
}

}  // namespace tapa
