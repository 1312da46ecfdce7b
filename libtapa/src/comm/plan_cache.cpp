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

// FNV-1a, over words instead of bytes.
std::size_t hash_of(std::string_view text, std::span<const std::size_t> numbers) {
  std::size_t hash = std::hash<std::string_view>{}(text);
  for (const std::size_t n : numbers) hash = (hash ^ n) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::shared_ptr<PlanEntry> PlanCache::find(std::string_view text, std::span<const std::size_t> numbers) {
  const std::size_t hash = hash_of(text, numbers);
  const auto place = std::ranges::find_if(nodes_, [&](const Node& node) {
    return node.hash == hash && node.text == text && std::ranges::equal(node.numbers, numbers);
  });
  if (place == nodes_.end()) return nullptr;
  nodes_.splice(nodes_.begin(), nodes_, place);
  return place->entry;
}

void PlanCache::insert(std::string_view text, std::span<const std::size_t> numbers,
                       std::shared_ptr<PlanEntry> entry) {
  entry->cached = true;
  entry->held = bytes_of(*entry) + numbers.size_bytes();
  held_ += entry->held;
  nodes_.push_front(
      {hash_of(text, numbers), std::string(text), {numbers.begin(), numbers.end()}, std::move(entry)});
  shrink();
}

/// The most recently used entry stays whatever it holds, as it is about to be used.
void PlanCache::shrink() {
  while (nodes_.size() > capacity_ || (held_ > limit_ && nodes_.size() > 1)) {
    PlanEntry& last = *nodes_.back().entry;
    held_ -= last.held;
    last.cached = false;
    nodes_.pop_back();
  }
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
  nodes_.clear();
  held_ = 0;
}

}  // namespace tapa
