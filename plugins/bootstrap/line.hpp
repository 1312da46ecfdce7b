/// The thread of a context that calls the program's functions: in rounds of all ranks, which do what all of
/// them have come to. A rank with nothing to do stays out of rounds, where the others then wait for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bootstrap/shared_starts.hpp"
#include "bootstrap/step.hpp"

namespace dit {

/// Shared by the context and its thread, which may outlive it: inside a function that does not return.
class Line : public std::enable_shared_from_this<Line> {
 public:
  explicit Line(std::unique_ptr<CallerFunctions> functions);
  void start();  ///< the thread

  [[nodiscard]] int rank() const { return functions_->rank(); }
  [[nodiscard]] int size() const { return functions_->size(); }
  [[nodiscard]] CallerFunctions& functions() { return *functions_; }

  /// Who is missing is then known, as far as ranks share memory. Before there are channels.
  void share(std::unique_ptr<SharedStarts> starts);
  [[nodiscard]] std::string missing(const Step& step) const;

  /// Puts a step in line. Throws PluginFailure when the line has failed.
  void add(const std::shared_ptr<Step>& step);
  /// True when it has ended. Throws what it ended with.
  [[nodiscard]] bool ended(const Step& step) const;
  /// True when it has ended, well or not.
  [[nodiscard]] bool is_over(const Step& step) const;
  /// Waits; false when it has not ended within `limit` seconds (0: there is no limit). Throws likewise.
  [[nodiscard]] bool wait(const Step& step, double limit);
  /// Exchanges that have ended well.
  [[nodiscard]] std::uint64_t exchanges() const;

  [[nodiscard]] bool is_good() const;
  void require_good() const;  ///< throws what has failed
  /// No step is done any more: those in line end with DIT_ERROR_COMMUNICATION and these words, but for one
  /// that a function of the program's is busy with.
  void fail(const std::string& words);
  /// Waits for all steps that are in line. The first of those that have not ended within the limit, if any.
  [[nodiscard]] std::shared_ptr<Step> drain(double limit);
  /// Ends the thread; false when it is inside a function that has not returned within `moment` seconds: then
  /// the thread goes on by itself.
  [[nodiscard]] bool stop(double moment);

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Steps = std::vector<std::shared_ptr<Step>>;
  void run();
  [[nodiscard]] bool do_round(const Steps& next);
  [[nodiscard]] Steps next_steps() const;
  void end(Step& step, std::optional<PluginFailure> failure);
  void run_step(Step& step, std::span<const std::uint64_t> blocks);
  void fail_locked(const std::string& words);
  void require_good_locked() const;

  std::unique_ptr<CallerFunctions> functions_;
  std::thread thread_;
  mutable std::mutex mutex_;                 ///< guards what follows
  std::condition_variable wake_;             ///< of the thread
  std::condition_variable ended_;            ///< of those who wait
  std::deque<std::shared_ptr<Step>> steps_;  ///< in line, in order
  std::map<int, std::uint64_t> added_;       ///< steps, by channel
  std::unique_ptr<SharedStarts> starts_;
  std::uint64_t exchanges_ = 0;
  const Step* running_ = nullptr;
  bool in_round_ = false;
  bool stopped_ = false;
  bool out_ = false;  ///< the thread has come to its end
  std::optional<PluginFailure> failure_;
};

}  // namespace dit
