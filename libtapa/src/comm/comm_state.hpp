/// @file
/// What the library keeps for each communicator. It hangs on the communicator as an attribute, is made by a
/// call that may synchronise and freed with the communicator, or at MPI_Finalize.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/autotuner.hpp"
#include "comm/call_order.hpp"
#include "comm/device_calls.hpp"
#include "comm/mean_block.hpp"
#include "comm/plan_chooser.hpp"
#include "comm/report.hpp"
#include "comm/setup.hpp"
#include "comm/shared_regions.hpp"
#include "run/shm_blocks.hpp"
#include "run/shm_exchange.hpp"
#include "transport/node_transport.hpp"
#include "world/options.hpp"

namespace tapa {

/// The parts of a communicator's state that its lock guards.
struct CommParts {
  CommParts(int rank, int ranks) : chooser(rank, ranks), tuner(chooser, ranks) {}

  CallOrder order;
  PlanChooser chooser;
  Autotuner tuner;
  MeanBlock mean;
  SharedRegions regions;
  Report report;

  /// The choice for blocks of `bytes` (`uniform`: all; else on average) among what `offer` allows. Throws
  /// CallError when a forced plan cannot be carried out and TAPA_FALLBACK=error.
  [[nodiscard]] Decision decide(bool uniform, std::size_t bytes, Offer offer);

  /// The plan for blocks that all have `bytes` bytes.
  [[nodiscard]] std::shared_ptr<PlanEntry> uniform_plan(std::size_t bytes, Offer offer);

  /// Whether calls that are no probes are MPI's, as no plan is known to be faster and the program did not ask
  /// for one. `bytes`: of all blocks, nothing where they differ.
  [[nodiscard]] bool leaves_unproven(std::optional<std::size_t> bytes, Offer offer) const;

  /// The competition of a blocking call whose size is not decided, or null. `bytes`: of a block, or of a mean
  /// one.
  [[nodiscard]] Autotuner::Running* competition(bool uniform, std::size_t bytes, Offer offer);
};

/// State of one intracommunicator. Methods may be called from several threads, but for those that are
/// collective; only these wait for other ranks.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  /// The state that hangs on `comm`, or null. Local.
  [[nodiscard]] static std::shared_ptr<CommState> find(MPI_Comm comm);
  /// The same; makes it when there is none, without talking to other ranks.
  [[nodiscard]] static std::shared_ptr<CommState> of(MPI_Comm comm);
  /// The same without looking at attributes, if one of this thread's last calls was of `comm`. Lives until a
  /// communicator is freed.
  [[nodiscard]] static CommState* cached(MPI_Comm comm);
  /// The states that live and were set up, in that order.
  [[nodiscard]] static std::vector<std::shared_ptr<CommState>> all();

  /// MPI_Finalize has begun: prints the report, ends what is under way, frees what the states keep. Once.
  static void end_all();

  explicit CommState(MPI_Comm user);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  /// Sets it up, unless it is. Collective; `user` is the communicator that it hangs on. Throws CallError when
  /// that failed, then and ever after. `in_world`: its ranks in the process's world, if they are known to be
  /// of it.
  void set_up(MPI_Comm user, std::vector<int> in_world = {});
  /// The same for MPI_COMM_WORLD, whose world has just been made: without a word.
  void set_up_whole(const std::shared_ptr<World>& world);

  /// For a blocking call of a program that knows nothing of the library: sets it up. Collective. True: it is.
  /// Never throws: what a guest cannot set up stays with MPI. `alone`: also one of one rank.
  [[nodiscard]] bool welcome(MPI_Comm user, bool alone) noexcept;
  /// Whether the set-up has failed for good: calls are MPI's without a word between the ranks.
  [[nodiscard]] bool given_up() const { return given_up_; }

  /// Whether it is set up.
  [[nodiscard]] bool ready() const { return ready_.load(std::memory_order_acquire); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // The rest needs ready().

  /// Where its messages go. Tags are dealt out by the call order.
  [[nodiscard]] const MessageSpace& space() const { return space_; }
  /// How arguments are checked.
  [[nodiscard]] Check check() const { return check_.load(std::memory_order_relaxed); }
  /// Whether MPI gets every call with nothing of it looked at, as buffers may be in GPU memory.
  [[nodiscard]] bool is_mpis() const { return is_mpis_.load(std::memory_order_relaxed); }
  /// Whether the program promises that no buffer is in GPU memory.
  [[nodiscard]] bool trusts_buffers() const { return trusts_buffers_.load(std::memory_order_relaxed); }
  /// Whether it is still to be asked whether ranks use GPUs, in the first blocking call: this was set up
  /// before that.
  [[nodiscard]] bool gpus_are_open() const { return gpus_are_open_.load(std::memory_order_relaxed); }
  /// Asks. Collective. Throws CallError.
  void ask_for_gpus(MPI_Comm user);
  /// Which way buffers in GPU memory take.
  [[nodiscard]] const DeviceDecision& device_way() const { return device_way_; }
  /// What the ranks agree with before each blocking call, where that way is the engine; else null.
  [[nodiscard]] DeviceCalls* device_calls() {
    return device_calls_ && device_way_.way == DeviceWay::engine ? &*device_calls_ : nullptr;
  }
  /// Frees what serves such buffers. Collective: when the communicator is freed, or MPI_Finalize has begun.
  void release_device();
  /// Whether nonblocking and persistent calls are ours: something makes them progress on every rank.
  [[nodiscard]] bool has_progress() const { return has_progress_; }
  /// Whether ranks of this rank's host outnumber its processors.
  [[nodiscard]] bool oversubscribed() const { return membership_.world->crowded(); }

  /// A snapshot of the options; TAPA_Comm_set replaces it.
  [[nodiscard]] std::shared_ptr<const Options> options() const;
  [[nodiscard]] std::shared_ptr<const Topology> topology() const;
  /// Sets an option; later operations see it. Collective: waits until earlier ones have begun. Throws
  /// std::invalid_argument.
  void set_option(std::string_view name, std::string_view value);

  /// The parts, locked as long as the result lives. No MPI call may be made meanwhile.
  class Locked {
   public:
    Locked(std::mutex& mutex, CommParts& parts) : lock_(mutex), parts_(&parts) {}
    CommParts* operator->() const { return parts_; }
    CommParts& operator*() const { return *parts_; }

   private:
    std::unique_lock<std::mutex> lock_;
    CommParts* parts_;
  };
  [[nodiscard]] Locked parts() { return {mutex_, *parts_}; }

  /// Whether MPI is asked for by name: then it gets calls exactly as they were made.
  [[nodiscard]] bool mpi_is_forced() const { return mpi_is_forced_.load(std::memory_order_relaxed); }

  /// Whether a nonblocking call is MPI's own; `uniform_bytes`: of all its blocks, nothing where they differ.
  [[nodiscard]] bool leaves_nonblocking(std::optional<std::size_t> uniform_bytes);

  /// Whether a persistent one is: buffers may be in GPU memory, which MPI takes.
  [[nodiscard]] bool leaves_persistent() const {
    return device_way_.way == DeviceWay::engine && device_way_.mpi_takes;
  }

  /// Longest message between nodes that travels whole.
  [[nodiscard]] std::size_t piece() const;
  /// Longest message inside a node that goes through our own shared memory in a plan of this choice.
  [[nodiscard]] std::size_t shm_limit(const Choice& choice) const;
  /// How executors and ranks at shared buffers wait.
  [[nodiscard]] WaitPolicy wait_policy() const { return wait_policy_.load(std::memory_order_relaxed); }
  [[nodiscard]] Waiter waiter() const { return {space_.comm, membership_.world->shm(), wait_policy()}; }

  /// An executor for a plan, not in use by anybody; hand it back when its run has ended well.
  [[nodiscard]] std::unique_ptr<Executor> take_executor(PlanEntry& entry);
  void give_executor(PlanEntry& entry, std::unique_ptr<Executor> executor);

  /// How a blocking call of `bytes` per pair can be carried out that needs nothing else of the state: no
  /// earlier call that has not begun, nothing to be agreed. `in_place`: all must be sent before anything is
  /// received.
  struct FastPath {
    ShmBuffers* buffers = nullptr;  ///< claimed
    bool mpi = false;
    std::optional<ProbeKey> tried;          ///< the call is a probe: its time is for record_probe()
    Autotuner::Running* counted = nullptr;  ///< it is none, and was counted there
  };
  /// `dense`: the blocks of both sides lie one after the other.
  [[nodiscard]] FastPath claim_fast(std::size_t bytes, bool in_place, bool dense);
  /// The same for blocks of any sizes.
  [[nodiscard]] FastPath claim_fast_blocks(bool may_use_mpi);
  /// What such calls use, one at a time.
  struct FastRun {
    ShmExchange run;
    Exchange blocks;
    ShmBlocks described;
  };
  [[nodiscard]] FastRun& fast_run() { return fast_run_; }
  void record_probe(const ProbeKey& key, double seconds, std::uint64_t sent);
  /// Whether such calls are counted for the report, and seconds after which one says whom it waits for; 0:
  /// never.
  [[nodiscard]] bool reports() const { return reports_; }
  [[nodiscard]] double timeout() const { return timeout_; }

  /// Notes what this communicator has found, for later runs. Once, on its rank 0.
  void keep_learnt() noexcept;

  /// The rows of the report so far.
  [[nodiscard]] std::vector<ReportRow> report_rows() const;

  /// Gives back what it has of its world; nothing may be in flight.
  void release();

 private:
  void adopt(Membership membership);
  void come_to_life(MPI_Comm user, double began);
  void enlist();
  void recall_learnt();
  void tell_learnt();
  [[nodiscard]] MachineView view_machine(const Options& options) const;
  [[nodiscard]] MachineView describe_machine(const Options& options) const;
  [[nodiscard]] bool is_plain(const Options& options) const;
  void note_memory(MachineView& view) const;
  [[nodiscard]] Topology topology_of(const Options& options) const;
  void decide_device_way(const Options& options, MachineView& machine);
  [[nodiscard]] RegionManners manners(const Options& options) const;
  [[nodiscard]] bool striped(const Topology& topology) const;
  void wait_for_turns();
  void note_options();
  [[nodiscard]] std::optional<Algorithm> fast_choice(std::size_t bytes, FastPath& way);
  [[nodiscard]] bool told(const PlanEntry& entry) const;
  [[nodiscard]] FastPath blocks_way(bool may_use_mpi);

  mutable std::mutex mutex_;
  int rank_ = 0;
  int size_ = 0;
  std::string name_;
  bool given_up_ = false;  // a guest's: MPI has it for good
  bool noted_ = false;     // what it has found
  std::atomic<bool> ready_ = false;
  std::unique_ptr<SetupError> failure_;
  Membership membership_;
  MessageSpace space_;
  std::optional<CommParts> parts_;  // from the set-up on
  std::atomic<bool> gpus_are_open_ = false;
  DeviceDecision device_way_;
  std::optional<DeviceCalls> device_calls_;
  bool has_progress_ = false;
  std::atomic<Check> check_ = Settings{}.check;
  std::atomic<bool> mpi_is_forced_ = false;
  std::atomic<bool> is_mpis_ = false;
  std::atomic<bool> trusts_buffers_ = false;
  std::atomic<WaitPolicy> wait_policy_ = WaitPolicy::spin;
  bool fast_ = false;  // whether the options allow the fast path
  bool reports_ = false;
  bool samples_ = false;
  double timeout_ = 0;
  bool explains_ = false;
  std::size_t fast_bytes_ = 0;                  // size of the last call for which a way is known
  bool fast_mpi_ = false;                       // whether it was MPI
  Autotuner::Running* fast_counted_ = nullptr;  // where such calls are counted
  FastRun fast_run_;
  bool always_memory_ = false;  // whether shared memory is the choice for all sizes
};

}  // namespace tapa
