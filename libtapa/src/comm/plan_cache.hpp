/// @file
/// Plans that were made before, with the executors that run them. Pure: no MPI.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/choose.hpp"
#include "run/executor.hpp"

namespace tapa {

/// A plan and why it was taken.
struct PlanEntry : Decision {
  std::size_t bytes = 0;                 ///< per pair; the average when sizes differ
  std::shared_ptr<const RankPlan> plan;  ///< null: carried out by MPI or in shared memory
  std::vector<Phase> phases;
  std::vector<std::unique_ptr<Executor>> idle;  ///< executors not in use
  std::atomic<bool> explained = false;          ///< whether its line for TAPA_EXPLAIN was printed
  std::size_t held = 0;                         ///< bytes that count against the cache's limit
  bool cached = false;                          ///< whether it is in the cache
};

/// Least recently used entries give way, beyond `capacity` or a limit in bytes of plans and idle executors. A
/// plan is a pure function of the key, so ranks need not evict alike.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity = 128) : capacity_(capacity) {}

  /// By default there is none.
  void set_limit(std::size_t bytes) { limit_ = bytes; }

  /// The entry stored under this text and these numbers, or null.
  [[nodiscard]] std::shared_ptr<PlanEntry> find(std::string_view text, std::span<const std::size_t> numbers) {
    const std::size_t hash = hash_of(text, numbers);
    const auto place = std::ranges::find_if(nodes_, [&](const Node& node) {
      return node.hash == hash && node.text == text && std::ranges::equal(node.numbers, numbers);
    });
    if (place == nodes_.end()) return nullptr;
    nodes_.splice(nodes_.begin(), nodes_, place);
    return place->entry;
  }

  void insert(std::string_view text, std::span<const std::size_t> numbers, std::shared_ptr<PlanEntry> entry) {
    entry->cached = true;
    entry->held = bytes_of(*entry) + numbers.size_bytes();
    held_ += entry->held;
    nodes_.push_front(
        {hash_of(text, numbers), std::string(text), {numbers.begin(), numbers.end()}, std::move(entry)});
    shrink();
  }

  /// Puts an executor of the entry away for the next run; frees it when that is more than the cache may hold.
  void keep(PlanEntry& entry, std::unique_ptr<Executor> executor) {
    const std::size_t bytes = executor->memory_bytes();
    if (!entry.cached || entry.held + bytes > limit_) return;
    entry.idle.push_back(std::move(executor));
    entry.held += bytes;
    held_ += bytes;
    shrink();
  }
  /// An idle executor of the entry, or null.
  [[nodiscard]] std::unique_ptr<Executor> take(PlanEntry& entry) {
    if (entry.idle.empty()) return nullptr;
    auto executor = std::move(entry.idle.back());
    entry.idle.pop_back();
    entry.held -= executor->memory_bytes();
    if (entry.cached) held_ -= executor->memory_bytes();
    return executor;
  }

  void clear() {
    for (const Node& node : nodes_) node.entry->cached = false;
    nodes_.clear();
    held_ = 0;
  }

  /// Bytes of all that is in the cache.
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  struct Node {
    std::size_t hash;  // of the key, so that most others differ in a word
    std::string text;
    std::vector<std::size_t> numbers;
    std::shared_ptr<PlanEntry> entry;
  };

  static std::size_t bytes_of(const PlanEntry& entry) {
    std::size_t bytes = sizeof entry;
    if (entry.plan != nullptr) {
      bytes += entry.plan->steps.size() * sizeof(Step) + entry.plan->segments.size() * sizeof(Segment) +
               entry.plan->deps.size() * sizeof(std::uint32_t);
    }
    return bytes;
  }

  // FNV-1a, over words instead of bytes.
  static std::size_t hash_of(std::string_view text, std::span<const std::size_t> numbers) {
    std::size_t hash = std::hash<std::string_view>{}(text);
    for (const std::size_t n : numbers) hash = (hash ^ n) * 0x100000001b3ULL;
    return hash;
  }

  /// The most recently used entry stays whatever it holds, as it is about to be used.
  void shrink() {
    while (nodes_.size() > capacity_ || (held_ > limit_ && nodes_.size() > 1)) {
      PlanEntry& last = *nodes_.back().entry;
      held_ -= last.held;
      last.cached = false;
      nodes_.pop_back();
    }
  }

  std::size_t capacity_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
  std::size_t held_ = 0;
  std::list<Node> nodes_;  // most recently used first
};

}  // namespace tapa
