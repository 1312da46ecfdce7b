/// @file
/// The ranks that carry out a command: this process alone, threads of it, or the processes of an MPI job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "exchange/exchange.hpp"
#include "failure.hpp"

namespace CLI {
class App;
}

namespace dit::tool {

/// The command line's words about ranks.
struct JobWords {
  std::string plugin;             ///< empty: what fits the launcher
  int ranks = 0;                  ///< threads of the local plugin; 0: one, or the job's size
  int ranks_per_node = 0;         ///< local: ranks that count as one node; 0: one level
  double rate = 0;                ///< local: bytes a second of each such node's NIC; 0: as fast as it goes
  std::optional<double> timeout;  ///< seconds after which a wait for other ranks is an error; 0: never
  int threads = 0;                ///< compute threads of each rank; 0: its share of the cores
};
void declare(CLI::App& app, JobWords& words);

/// One rank of the job.
class Member {
 public:
  /// Contexts by plugin name, the first one for the command's own messages; none: one rank alone.
  explicit Member(std::vector<std::pair<std::string, ExchangeContext*>> contexts)
      : contexts_(std::move(contexts)) {}

  [[nodiscard]] int rank() const { return contexts_.empty() ? 0 : contexts_.front().second->rank(); }
  [[nodiscard]] int size() const { return contexts_.empty() ? 1 : contexts_.front().second->size(); }
  [[nodiscard]] bool leads() const { return rank() == 0; }
  /// Null when this rank is alone.
  [[nodiscard]] ExchangeContext* context() const {
    return contexts_.empty() ? nullptr : contexts_.front().second;
  }
  [[nodiscard]] ExchangeContext* context(const std::string& plugin) const;

  /// Runs a step that may fail on some ranks: it succeeds on all of them, or throws the same Failure on all
  /// of them.
  void together(const std::function<void()>& step) const;
  /// The same for what rank 0 does for the whole job: its failure is everybody's.
  void on_leader(const std::function<void()>& step) const;
  /// What each rank has come to. Its time limit is the context's.
  [[nodiscard]] std::vector<Verdict> verdicts(const Verdict& own) const;
  void barrier() const;
  /// What each rank gives, whatever its length.
  [[nodiscard]] std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) const;

  template <typename T>
  [[nodiscard]] std::vector<std::vector<T>> gather_values(std::span<const T> own) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<T>> all;
    for (const std::vector<std::byte>& bytes : gather(std::as_bytes(own))) {
      all.emplace_back(bytes.size() / sizeof(T));
      std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(all.back())).begin());
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, ExchangeContext*>> contexts_;
};

/// How the job will run, from the words and the launcher.
struct JobPlan {
  bool local = true;   ///< threads of this process, else the processes of a job
  std::string plugin;  ///< name
  int ranks = 1;
  int ranks_per_node = 0;
  double rate = 0;
  double timeout = 0;
  std::string unlimited;  ///< a plugin that waits without limit
  int threads = 0;        ///< 0: left to the engine
  /// Whether exchanges take what links take: not those of threads whose rate nobody gave.
  [[nodiscard]] bool links_are_real() const { return !local || rate > 0; }
};
/// Throws std::invalid_argument for words that contradict each other or the launcher.
[[nodiscard]] JobPlan plan_job(const JobWords& words);

/// Runs body on all ranks and returns when all are done. `more_plugins`: opened beside the plan's own (same
/// ranks). A Failure of Member::together ends the job in order; another exception ends all ranks. What went
/// wrong is said once: by rank 0 when all ranks failed, else by the rank that did.
void run_job(const JobPlan& plan, const std::vector<std::string>& more_plugins,
             const std::function<void(Member&)>& body);
void run_job(const JobPlan& plan, const std::function<void(Member&)>& body);

}  // namespace dit::tool
