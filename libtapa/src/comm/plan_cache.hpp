/// @file
/// Plans that were made before, with the executors that run them. Pure: no MPI.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  [[nodiscard]] std::shared_ptr<PlanEntry> find(std::string_view text, std::span<const std::size_t> numbers);

  void insert(std::string_view text, std::span<const std::size_t> numbers, std::shared_ptr<PlanEntry> entry);

  /// Puts an executor of the entry away for the next run; frees it when that is more than the cache may hold.
  void keep(PlanEntry& entry, std::unique_ptr<Executor> executor);
  /// An idle executor of the entry, or null.
  [[nodiscard]] std::unique_ptr<Executor> take(PlanEntry& entry);

  void clear();

  /// Bytes of all that is in the cache.
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  struct Node {
    std::size_t hash;  // of the key, so that most others differ in a word
    std::string text;
    std::vector<std::size_t> numbers;
    std::shared_ptr<PlanEntry> entry;
  };

  void shrink();

  std::size_t capacity_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
  std::size_t held_ = 0;
  std::list<Node> nodes_;  // most recently used first
};

}  // namespace tapa
