/// What the ranks of the local exchange share: who has started which exchange, and the copying between them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dit/exchange.h"
#include "exchange/check_call.hpp"
#include "exchange/local/emulated_nics.hpp"
#include "exchange/select_rows.hpp"

namespace dit {

/// One rank's side of one exchange. The members below the buffers are guarded by the job's mutex.
struct LocalPart {
  LocalPart(const dit_exchange_call& call, const ContextPlace& place);

  const void* send;
  void* recv;
  std::vector<std::vector<ByteRun>> send_runs, recv_runs;  // for each peer
  std::string label;

  int channel;
  std::uint64_t number = 0;             // of the exchange within its channel, from 1
  std::size_t peers_left;               // with whom nothing has been exchanged yet; the rank itself counts
  std::size_t copies_under_way = 0;     // by whichever thread
  EmulatedNics::Clock::time_point due;  // when its last message arrives
  std::string problem;                  // why its data is not all there, "" when it is

  [[nodiscard]] std::string name() const;  // "exchange 3 of channel 1 ('v')"
};

/// What all groups of one run share: threads that wait in one group must hear of a rank that left.
struct LocalJob {
  LocalJob(int nodes, double bytes_per_second) : nics(nodes, bytes_per_second) {}
  /// No exchange will complete any more, in no group. The first call's words count.
  void fail(const std::string& why);

  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  // "" while all is well
  EmulatedNics nics;
};

class LocalGroup {
 public:
  using Clock = EmulatedNics::Clock;
  using Seconds = std::chrono::duration<double>;

  /// `nodes`: the node of each rank. Without nodes there is one level.
  LocalGroup(std::shared_ptr<LocalJob> job, std::vector<int> nodes, bool has_nodes);

  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const std::vector<const char*>& level_names() const { return level_names_; }
  [[nodiscard]] std::vector<int> levels_of(int rank) const;  ///< of each peer, seen from a rank
  [[nodiscard]] int slow_level() const;
  [[nodiscard]] LocalJob& job() { return *job_; }

  /// A rank is one context's at a time. Throws PluginFailure when it is another's.
  void enter(int rank);
  void leave(int rank);
  void require_good();  ///< throws PluginFailure when the group has failed

  /// Publishes a rank's side of its next exchange and copies between it and the ranks that are there already.
  void start(int rank, const std::shared_ptr<LocalPart>& part);
  /// True when the part is complete, well or with a problem.
  [[nodiscard]] bool done(const LocalPart& part);
  /// Waits until it is. Throws PluginFailure: with DIT_ERROR_TIMEOUT when it is not in time (0: no limit),
  /// and is still under way; else when it never will be, and nobody touches its buffers any more.
  void wait(int rank, LocalPart& part, Seconds limit);
  /// Ends what is under way: the group is of no use to anybody afterwards, and nobody touches the part's
  /// buffers any more.
  void give_up(int rank, LocalPart& part, const std::string& words);
  /// Whether nobody touches a part's buffers any more.
  [[nodiscard]] bool released(const LocalPart& part);

  /// The group of the ranks with this rank's colour: the same object for all of them, made by the first one
  /// to come. `members`: their ranks here, in the order that they have there. `number`: of the split, the
  /// same on all ranks.
  std::shared_ptr<LocalGroup> subgroup(std::uint64_t number, int colour, const std::vector<int>& members);

 private:
  using Key = std::pair<int, std::uint64_t>;  // channel and number of an exchange
  struct Round {                              // an exchange that not all ranks have started
    std::vector<std::shared_ptr<LocalPart>> parts;
    std::size_t arrived = 0;
  };
  struct Subgroup {
    std::shared_ptr<LocalGroup> group;
    std::size_t taken = 0;
  };

  [[nodiscard]] const std::string& failure() const {
    return job_->failure.empty() ? failure_ : job_->failure;
  }
  void copy_between(int rank, LocalPart& part, int peer, LocalPart& other);
  void give_up(int rank, LocalPart& part, std::unique_lock<std::mutex>& lock, const std::string& words);
  [[nodiscard]] std::uint64_t& started(int channel, int rank);
  [[nodiscard]] std::string late_words(int rank, const LocalPart& part, Seconds limit);

  std::shared_ptr<LocalJob> job_;
  std::vector<int> nodes_;
  bool has_nodes_;
  std::vector<bool> is_open_;  // each rank; guarded by the job's mutex, as what follows
  std::vector<const char*> level_names_;
  std::string failure_;                                // why this group is of no use any more
  std::map<int, std::vector<std::uint64_t>> started_;  // exchanges, by channel and rank
  std::map<Key, Round> rounds_;
  std::map<std::pair<std::uint64_t, int>, Subgroup> subgroups_;
};

}  // namespace dit
