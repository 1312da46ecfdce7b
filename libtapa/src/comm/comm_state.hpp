/// @file
/// What the library keeps for each communicator, as an attribute (registry.hpp), until its end or MPI's.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/autotuner.hpp"
#include "comm/call_order.hpp"
#include "comm/device_way.hpp"
#include "comm/mean_block.hpp"
#include "comm/neighbourhood.hpp"
#include "comm/plan_chooser.hpp"
#include "comm/setup.hpp"
#include "comm/shared_regions.hpp"
#include "report/report.hpp"
#include "report/traffic.hpp"
#include "run/locked.hpp"
#include "run/memory_run.hpp"
#include "run/sparse_exchange.hpp"
#include "transport/waiter.hpp"

namespace tapa {

class DeviceCalls;

/// What options and machine say of all calls. TAPA_Comm_set makes others. Alike on all ranks but for
/// `waiting`.
struct Rules : Settings {
  std::shared_ptr<const Options> options;
  std::shared_ptr<const Topology> topology;
  bool trusts_buffers = false;  ///< the program promises that no buffer is in GPU memory
  bool is_mpis = false;         ///< MPI gets every call with nothing of it looked at: such buffers may come
  bool mpi_is_forced = false;   ///< MPI is asked for by name: it gets calls exactly as they were made
  bool fast = false;            ///< blocking calls may begin without a place in the order of calls
  bool always_memory = false;   ///< ... and shared memory is the choice for all sizes
  DeviceDecision device;        ///< which way buffers in GPU memory take
  WaitPolicy waiting = WaitPolicy::spin;  ///< by rank 0's wish, but each node's own number of cores

  [[nodiscard]] bool compares() const { return check >= Check::counts; }
  /// Whether persistent calls are MPI's: buffers may be in GPU memory, which it takes.
  [[nodiscard]] bool leaves_persistent() const { return device.way == DeviceWay::engine && device.mpi_takes; }
};

/// The way of the last call with equal blocks that began at once, which the next one of that size takes.
struct LastWay {
  std::size_t bytes = 0;  ///< 0: none
  bool mpi = false;
  Competition* counted = nullptr;
};

/// The parts of the state that its lock guards.
struct CommParts {
  CommParts(int rank, int ranks) : chooser(rank, ranks), tuner(chooser, ranks) {}

  std::string name;                    // for the report
  std::shared_ptr<const Rules> rules;  // for calls, until another option is set
  CallOrder order;
  PlanChooser chooser;
  Autotuner tuner;
  MeanBlock mean;
  Neighbourhood neighbourhood;
  SharedRegions regions;
  Report report;
  Traffic traffic;  // of calls whose blocks differ, for the report
  LastWay last;
};

/// Of one intracommunicator. Collective methods, which alone wait for others, are for one thread at a time.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  explicit CommState(MPI_Comm user);
  ~CommState();

  /// Sets it up, unless it is. Collective over `user`. Throws CallError when that failed,
  /// then and ever after. `in_world`: its ranks in the process's world, if known.
  void set_up(std::vector<int> in_world = {});
  /// For MPI_COMM_WORLD, whose world has just been made, from MPI_Wtime() `began` on: without a word.
  void set_up_whole(const std::shared_ptr<World>& world, double began);

  /// The same for a blocking call under the drop-in. False: it stays with MPI. `alone`: also one of one rank.
  [[nodiscard]] bool welcome(bool alone) noexcept;

  /// Whether it is set up.
  [[nodiscard]] bool ready() const { return ready_.load(std::memory_order_acquire); }

  const MPI_Comm user;  ///< on which it hangs: until that is freed
  const int rank;
  const int size;
  bool given_up =
      false;  ///< the set-up has failed for good: calls are MPI's without a word between the ranks

  /// The edges of its topology for blocking or nonblocking calls; null: it has none. Throws CallError.
  [[nodiscard]] const Edges* edges(bool nonblocking);

  // The rest needs ready().

  Membership membership;  ///< its place in its world
  MessageSpace space;     ///< where its messages go; tags are dealt out by the call order
  MemoryRun memory_run;   ///< of calls that go through memory at once, one at a time
  /// For calls on the communicator; the parts' are for whoever outlives a call.
  [[nodiscard]] const Rules& rules() const { return *rules_of_calls_.load(std::memory_order_acquire); }
  /// Sets an option, when earlier operations have begun. Collective. Throws std::invalid_argument.
  void set_option(std::string_view name, std::string_view value);

  /// Asks once whether ranks use GPUs, if it was set up before the first call. Collective. Throws CallError.
  void ask_for_gpus();
  /// What ranks agree with before each blocking call, where the engine carries GPU memory; else null.
  [[nodiscard]] DeviceCalls* device_calls() {
    return rules().device.way == DeviceWay::engine ? device_calls_.get() : nullptr;
  }
  /// Frees what serves such buffers. Collective: when the communicator is freed, or MPI_Finalize has begun.
  void release_device();

  /// The parts. No MPI call may be made while they are locked.
  [[nodiscard]] Locked<CommParts> parts() { return {mutex_, *parts_}; }

  /// How ranks wait for each other.
  [[nodiscard]] Waiter waiter() const { return {space.comm, membership.world->shm.get(), rules().waiting}; }

  /// The run of sparse exchanges, one at a time too.
  [[nodiscard]] SparseExchange& sparse_exchange() {
    if (!sparse_exchange_) sparse_exchange_ = std::make_unique<SparseExchange>(rank, size);
    return *sparse_exchange_;
  }

  /// Gives back what it has of its world; nothing may be in flight.
  void release();

 private:
  void adopt(Membership joined);
  void come_to_life(double began);
  void forget();
  void use_device_comm();
  void follow(const std::shared_ptr<const Options>& options, MachineView machine);

  std::mutex mutex_;
  std::atomic<bool> ready_ = false;
  std::optional<SetupError> failure_;
  std::optional<CommParts> parts_;                      // from the set-up on
  std::atomic<const Rules*> rules_of_calls_ = nullptr;  // the parts'
  std::atomic<bool> gpus_are_open_ = false;
  std::unique_ptr<DeviceCalls> device_calls_;
  struct KnownEdges {
    std::once_flag looked;
    std::unique_ptr<const Edges> edges;
  };
  std::array<KnownEdges, 2> edges_;  // of blocking and of nonblocking calls
  std::unique_ptr<SparseExchange> sparse_exchange_;
};

}  // namespace tapa
