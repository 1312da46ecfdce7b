#include "comm/plan_cache.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace tapa {

namespace {

std::size_t bytes_of(const PlanEntry& entry) {
  std::size_t bytes = sizeof entry;
  if (entry.plan != nullptr) {
    bytes += entry.plan->steps.size() * sizeof(Step) + entry.plan->segments.size() * sizeof(Segment) +
             entry.plan->deps.size() * sizeof(std::uint32_t);
  }
  return bytes;
}

}  // namespace

// FNV-1a, over words instead of bytes.
std::size_t PlanCache::hash_of(std::string_view text, std::span<const std::size_t> numbers) {
  std::size_t hash = std::hash<std::string_view>{}(text);
  for (const std::size_t n : numbers) hash = (hash ^ n) * 0x100000001b3ULL;
  return hash;
}

std::shared_ptr<PlanEntry> PlanCache::find(std::string_view text, std::span<const std::size_t> numbers) {
  const auto [begin, end] = places_.equal_range(hash_of(text, numbers));
  for (auto it = begin; it != end; ++it) {
    const Place place = it->second;
    if (place->text != text || !std::ranges::equal(place->numbers, numbers)) continue;
    nodes_.splice(nodes_.begin(), nodes_, place);
    return place->entry;
  }
  return nullptr;
}

void PlanCache::insert(std::string_view text, std::span<const std::size_t> numbers,
                       std::shared_ptr<PlanEntry> entry) {
  const std::size_t hash = hash_of(text, numbers);
  entry->cached = true;
  entry->held = bytes_of(*entry) + numbers.size_bytes();
  held_ += entry->held;
  nodes_.push_front({hash, std::string(text), {numbers.begin(), numbers.end()}, std::move(entry)});
  places_.emplace(hash, nodes_.begin());
  shrink();
}

/// The most recently used entry stays whatever it holds, as it is about to be used.
void PlanCache::shrink() {
  while (nodes_.size() > capacity_ || (held_ > limit_ && nodes_.size() > 1)) drop_last();
}

void PlanCache::drop_last() {
  const Place last = std::prev(nodes_.end());
  const auto [begin, end] = places_.equal_range(last->hash);
  places_.erase(
      std::find_if(begin, end, [&](const auto& entry_place) { return entry_place.second == last; }));
  held_ -= last->entry->held;
  last->entry->cached = false;
  nodes_.pop_back();
}

void PlanCache::keep(PlanEntry& entry, std::unique_ptr<Executor> executor) {
  const std::size_t bytes = executor->memory_bytes();
  if (!entry.cached || entry.held + bytes > limit_) return;
  entry.idle.push_back(std::move(executor));
  entry.held += bytes;
  held_ += bytes;
  shrink();
}

std::unique_ptr<Executor> PlanCache::take(PlanEntry& entry) {
  if (entry.idle.empty()) return nullptr;
  auto executor = std::move(entry.idle.back());
  entry.idle.pop_back();
  entry.held -= executor->memory_bytes();
  if (entry.cached) held_ -= executor->memory_bytes();
  return executor;
}

void PlanCache::clear() {
  for (const Node& node : nodes_) node.entry->cached = false;
  places_.clear();
  nodes_.clear();
  held_ = 0;
}

}  // namespace tapa
