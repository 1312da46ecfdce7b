/// @file
/// Plans that were made before, with the executors that run them. Pure: no MPI.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan/choice.hpp"
#include "run/executor.hpp"

namespace tapa {

/// A plan and why it was taken.
struct PlanEntry {
  Choice choice;
  std::string text;                      ///< text form of the choice
  std::string why;                       ///< one sentence
  double predicted = 0;                  ///< seconds, 0 = unknown
  std::size_t bytes = 0;                 ///< per pair; the average when sizes differ
  std::shared_ptr<const RankPlan> plan;  ///< null: MPI carries it out, or a buffers (memory)
  std::vector<Phase> phases;
  std::vector<std::unique_ptr<Executor>> idle;  ///< executors not in use
  std::atomic<bool> explained = false;          ///< whether its line for TAPA_EXPLAIN was printed
};

/// Least recently used entries give way. A plan is a pure function of the key, so ranks need not evict alike.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  /// The entry stored under this text and these numbers, or null.
  [[nodiscard]] std::shared_ptr<PlanEntry> find(std::string_view text, std::span<const std::size_t> numbers);

  void insert(std::string_view text, std::span<const std::size_t> numbers, std::shared_ptr<PlanEntry> entry);

  void clear();

 private:
  struct Node {
    std::size_t hash;
    std::string text;
    std::vector<std::size_t> numbers;
    std::shared_ptr<PlanEntry> entry;
  };
  using Place = std::list<Node>::iterator;

  [[nodiscard]] static std::size_t hash_of(std::string_view text, std::span<const std::size_t> numbers);

  std::size_t capacity_;
  std::list<Node> nodes_;  // most recently used first
  std::unordered_multimap<std::size_t, Place> places_;
};

}  // namespace tapa
