/// Ranks that meet in the memory of one process: what a program may give to the exchange "bootstrap", made to
/// fail and to wait as a test wants it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dit/bootstrap.h"
#include "exchange/exchange.hpp"

namespace dit {

class MemoryGroup;

/// One rank of a group. What a test sets it sets before the context is opened.
struct MemoryRank {
  MemoryGroup* group = nullptr;
  int rank = 0;
  std::string node = "one";
  const char* reach = nullptr;
  std::function<int(const char* function)> before;  ///< asked first; a code other than 0 ends the call
  std::string words;                                ///< for last_error
  std::atomic<int> calls{0};
  std::atomic<int> released{0};
  std::atomic<bool> inside{false};
  std::atomic<bool> twice{false};  ///< called while it was called
};

class MemoryGroup {
 public:
  explicit MemoryGroup(int size);
  /// Nothing of it is in use any more.
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool alltoallv = true;  ///< the ranks have one
  bool parts = true;

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] MemoryRank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] dit_bootstrap bootstrap(int rank);

  /// All calls fail, those too that wait for a rank that never comes.
  void give_up();

 private:
  friend struct MemoryFunctions;
  /// One call of one rank: what it gives is there until all have called `take`.
  struct Given {
    const char* function = nullptr;
    const void* bytes = nullptr;
    const std::size_t* counts = nullptr;
    const std::size_t* offsets = nullptr;
  };
  [[nodiscard]] int meet(MemoryRank& rank, const Given& given, const std::function<bool()>& take);
  [[nodiscard]] bool wait_for_all(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] MemoryGroup& part(const std::vector<int>& ranks, int number);

  std::vector<std::unique_ptr<MemoryRank>> ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Given> given_;
  int arrived_ = 0;
  unsigned long round_ = 0;
  bool gave_up_ = false;
  std::map<std::pair<int, std::vector<int>>, std::unique_ptr<MemoryGroup>> part_groups_;
};

struct MemoryOptions {
  double timeout_seconds = 30;
  std::string config;
};

/// A context of a rank, by the plugin that is linked in.
[[nodiscard]] ExchangeContext open_context(MemoryGroup& group, int rank, const MemoryOptions& options = {});

/// Runs `body` in a thread for each rank, with its context, and closes them.
void run_memory_ranks(MemoryGroup& group, const std::function<void(ExchangeContext&)>& body,
                      const MemoryOptions& options = {});

}  // namespace dit
