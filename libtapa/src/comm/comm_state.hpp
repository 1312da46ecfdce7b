/// @file
/// What the library keeps for each communicator. It hangs on the communicator as an attribute, is made by the
/// first call and freed with the communicator, or at MPI_Finalize.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autotune/autotuning.hpp"
#include "autotune/candidates.hpp"
#include "comm/options.hpp"
#include "comm/plan_cache.hpp"
#include "comm/report.hpp"
#include "comm/setup.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
#include "run/shm_blocks.hpp"
#include "run/shm_exchange.hpp"
#include "topology/topology.hpp"
#include "transport/node_transport.hpp"

namespace tapa {

class CallError;
class Operation;

/// A choice with its reason, agreed between the ranks because it depends on agreed things only.
struct Decision {
  Choice choice;
  std::string text;
  std::string why;
  double predicted = 0;
};

/// What a call goes by when plans are tried: calls of the same key compete with each other.
struct ProbeKey {
  bool uniform = false;
  bool mpi = false;  ///< whether MPI may carry it out
  std::size_t size_class = 0;
  auto operator<=>(const ProbeKey&) const = default;
};

/// The plan of a call that is part of a autotuning.
struct Probe {
  ProbeKey key;
  Decision decision;
};

/// Message tags of one operation: tags first .. first + count - 1 of the private communicator.
struct TagWindow {
  int first = 0;
  int count = 0;
};

/// State of one intracommunicator. Methods may be called from several threads; none waits for another rank.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  /// The state of `comm`; begins its setup when there is none, which is collective. Throws CallError.
  static std::shared_ptr<CommState> of(MPI_Comm comm);
  /// The states that live, in the order in which they were made.
  static std::vector<std::shared_ptr<CommState>> all();

  explicit CommState(MPI_Comm user);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  /// Advances the setup; true when it is complete. Throws CallError when it failed, then and ever after.
  bool ready();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// How arguments are checked; as by default until the options are known.
  [[nodiscard]] Check check() const { return check_.load(std::memory_order_relaxed); }

  // The rest needs ready().

  /// The private communicator. Messages on it carry tags from tag windows.
  [[nodiscard]] MPI_Comm comm() const { return agreement_.comm; }
  /// A snapshot of the options; TAPA_Comm_set replaces it.
  [[nodiscard]] std::shared_ptr<const Options> options() const;
  [[nodiscard]] std::shared_ptr<const Topology> topology() const;
  /// Whether this rank's host has more ranks than processors.
  [[nodiscard]] bool oversubscribed() const { return oversubscribed_; }

  /// Longest message between nodes that travels whole.
  [[nodiscard]] std::size_t piece() const;

  /// Longest message inside a node that goes through our own shared memory in a plan of this choice.
  [[nodiscard]] std::size_t shm_limit(const Choice& choice) const;

  /// How executors wait.
  [[nodiscard]] WaitPolicy wait_policy() const { return wait_policy_.load(std::memory_order_relaxed); }

  /// Sets an option; later operations see it. Throws std::invalid_argument.
  void set_option(std::string_view name, std::string_view value);

  /// The choice for blocks of `bytes` (`uniform`: all; else on average) among what `offer` allows. Throws
  /// CallError when a forced plan cannot be carried out and TAPA_FALLBACK=error.
  [[nodiscard]] Decision decide(bool uniform, std::size_t bytes, Offer offer);

  /// The plan for blocks that all have `bytes` bytes.
  [[nodiscard]] std::shared_ptr<PlanEntry> uniform_plan(std::size_t bytes, Offer offer);

  /// Whether the choice is the same for all sizes of blocks.
  [[nodiscard]] bool one_choice() const;

  /// The next plan to try for a blocking call, where TAPA_ADAPT asks for that: nothing when this size is
  /// decided, or there is nothing to try. `uniform` calls and others are tried apart. Called in turn
  /// (first_in_queue); `waits` tells that the ranks are about to agree, and that it must be called again.
  [[nodiscard]] std::optional<Probe> try_plan(bool uniform, std::size_t bytes, Offer offer, bool& waits);
  /// A call of a autotuning has taken so long, and this rank has sent so many bytes. To be called once for
  /// each, also when it failed, so that all ranks stay in step.
  void record_probe(const ProbeKey& key, double seconds, std::uint64_t sent);

  /// Whether blocking calls with blocks of different sizes tell all ranks at the buffers how many bytes all
  /// send. Then the mean block of the last such call is what the next one goes by, and nothing is agreed.
  [[nodiscard]] bool exchange_tells_mean() const;
  [[nodiscard]] std::size_t shared_mean() const;
  /// Such a call has ended: `bytes` of all ranks, or it was left to MPI.
  void note_blocks(std::optional<std::uint64_t> bytes);

  /// Whether all ranks share a buffers. Persistent operations need one each, as they may be started in any
  /// order; there are a few for the life of the communicator.
  [[nodiscard]] bool has_buffers(bool persistent) const;
  /// The common buffers, or the next one for a persistent operation. Precondition: has_buffers().
  [[nodiscard]] ShmBuffers& buffers(bool persistent);

  /// How a blocking call of `bytes` per pair can be carried out that needs nothing else of the state: no
  /// checks of counts, no report, no earlier call that has not begun. `in_place`: all must be sent before
  /// anything is received.
  struct FastPath {
    ShmBuffers* buffers = nullptr;  ///< claimed
    bool mpi = false;
    std::optional<ProbeKey> tried;  ///< its time is for record_probe()
  };
  /// `dense`: the blocks of both sides lie one after the other.
  [[nodiscard]] FastPath claim_fast(std::size_t bytes, bool in_place, bool dense);
  /// The same for blocks of any sizes.
  [[nodiscard]] FastPath claim_fast_blocks(bool may_use_mpi);
  /// Whether MPI is asked for by name: then it gets calls exactly as they were made.
  [[nodiscard]] bool mpi_is_forced() const { return mpi_is_forced_.load(std::memory_order_relaxed); }
  /// What such calls use, one at a time.
  struct FastRun {
    ShmExchange run;
    Exchange blocks;
    ShmBlocks described;
  };
  [[nodiscard]] FastRun& fast_run() { return fast_run_; }

  /// How a rank waits at a buffers.
  [[nodiscard]] Waiter waiter() const { return {agreement_.comm, agreement_.node.get(), wait_policy()}; }

  /// The plan for `counts`, of which `key` holds all numbers that it depends on; a mean block has `mean`
  /// bytes.
  [[nodiscard]] std::shared_ptr<PlanEntry> plan_for(const Decision& decision, const Counts& counts,
                                                    std::span<const std::size_t> key, std::size_t mean);

  /// An executor for a plan, not in use by anybody; hand it back when its run has ended well.
  [[nodiscard]] std::unique_ptr<Executor> take_executor(PlanEntry& entry);
  void give_executor(PlanEntry& entry, std::unique_ptr<Executor> executor);

  /// Tags for one operation, alike on all ranks because operations begin in the same order everywhere.
  /// Persistent operations keep theirs from run to run, so they come from a range of their own.
  [[nodiscard]] TagWindow next_tags(bool persistent);

  /// Operations that are being prepared, in the order of their calls. Only the first may start MPI
  /// collectives on comm(), so that all ranks start them in the same order.
  void enqueue(Operation* operation);
  void leave(Operation* operation);
  [[nodiscard]] Operation* first_in_queue() const;

  /// The size that choices for alltoallv and alltoallw go by: the mean block of an earlier call, summed over
  /// all ranks. Called in turn (first_in_queue) with this call's bytes; false until the number is there.
  [[nodiscard]] bool agreed_mean(std::size_t own_bytes, std::size_t& mean);

  /// Counters for TAPA_REPORT. `bytes_per_pair` must be alike on all ranks.
  void count_call(const char* function, const PlanEntry& entry, std::size_t bytes_per_pair, std::size_t bytes,
                  double seconds, const std::optional<Sample>& sample);
  /// Whether MPI is to be run beside the next call of this kind, for the report.
  [[nodiscard]] bool sample_due(const char* function, const PlanEntry& entry,
                                std::size_t bytes_per_pair) const;
  [[nodiscard]] std::vector<ReportRow> report() const;

  /// Frees the private communicator now; nothing may be in flight.
  void release();

 private:
  [[nodiscard]] static std::shared_ptr<CommState> of_attribute(MPI_Comm comm);
  void adopt(Agreement agreement);
  void make_topology();
  [[nodiscard]] bool striped(const Topology& topology) const;
  [[nodiscard]] std::shared_ptr<PlanEntry> uniform_plan_locked(std::size_t bytes, Offer offer);
  [[nodiscard]] bool one_choice_locked() const;
  [[nodiscard]] Decision decide_locked(bool uniform, std::size_t bytes, Offer offer);
  [[nodiscard]] Decision forced(const Choice& choice, Offer offer);
  void note_options();
  void end_autotunings();
  static std::size_t size_class_of(std::size_t bytes) { return std::bit_floor(bytes); }
  struct RunningAutotuning {  // and how the ranks agree on its times
    Autotuning autotuning;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // slowest times; sums of bytes
    bool agreeing = false;
  };
  [[nodiscard]] static ProbeKey key_of(bool uniform, std::size_t bytes, Offer offer);
  [[nodiscard]] std::vector<Candidate> ranked_locked(std::size_t bytes, Offer offer) const;
  [[nodiscard]] std::optional<Algorithm> fast_choice(std::size_t bytes, std::optional<ProbeKey>& tried);
  [[nodiscard]] FastPath blocks_way(bool may_use_mpi);
  [[nodiscard]] bool tries(const ProbeKey& key, std::size_t bytes) const;
  [[nodiscard]] const RunningAutotuning* ended_autotuning(const ProbeKey& key) const;
  [[nodiscard]] std::optional<Decision> decided(bool uniform, std::size_t bytes, Offer offer) const;
  [[nodiscard]] std::vector<Tried> tried_near(const ProbeKey& key, Offer offer) const;
  RunningAutotuning& autotuning_of(const ProbeKey& key, std::size_t bytes, Offer offer);
  [[nodiscard]] bool agree_on_round(RunningAutotuning& running, bool uniform);
  [[nodiscard]] std::shared_ptr<PlanEntry> make_entry(const Decision& decision, const Counts& counts);

  mutable std::mutex mutex_;
  int rank_ = 0;
  int size_ = 0;
  std::string name_;
  std::atomic<bool> ready_ = false;
  std::atomic_flag in_setup_;     // somebody advances the setup
  std::unique_ptr<Setup> setup_;  // until it is complete
  std::unique_ptr<CallError> failure_;
  Agreement agreement_;
  std::shared_ptr<const Options> options_;
  std::shared_ptr<const Topology> topology_;
  Rates rates_;
  std::vector<Measurement> measurements_;
  bool oversubscribed_ = false;
  std::atomic<Check> check_ = Settings{}.check;
  std::atomic<WaitPolicy> wait_policy_ = WaitPolicy::spin;
  bool warned_fallback_ = false;
  bool shares_buffers_ = false;  // all ranks do
  bool fast_ = false;            // whether the options allow fast calls
  std::size_t fast_bytes_ = 0;   // size of the last one for which a way is known
  bool fast_mpi_ = false;        // whether it was MPI
  bool always_memory_ = false;   // whether the buffers is the choice for all sizes
  FastRun fast_run_;
  std::map<ProbeKey, std::unique_ptr<RunningAutotuning>> autotunings_;
  std::atomic<bool> mpi_is_forced_ = false;
  std::optional<std::size_t> shared_mean_;  // see exchange_tells_mean()
  unsigned mpi_blocks_ = 0;                 // calls left to MPI since it was learnt
  std::size_t next_channel_ = 1;
  PlanCache plans_{128};
  std::deque<Operation*> queue_;
  int tag_limit_ = 32767;
  std::uint64_t next_window_ = 0;
  std::uint64_t next_persistent_window_ = 0;
  std::uint64_t mean_calls_ = 0;  // calls of agreed_mean that ended
  bool mean_pending_ = false;
  MPI_Request mean_request_ = MPI_REQUEST_NULL;
  std::uint64_t mean_own_ = 0;
  std::uint64_t mean_total_ = 0;
  std::size_t mean_ = 0;
  Report report_;
};

}  // namespace tapa
