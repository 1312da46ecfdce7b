/// @file
/// What the library keeps for each communicator. It hangs on the communicator as an attribute (registry.hpp),
/// is made by a call that may synchronise and freed with the communicator, or at MPI_Finalize.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/comm_parts.hpp"
#include "comm/device_calls.hpp"
#include "comm/rules.hpp"
#include "comm/setup.hpp"
#include "run/memory_run.hpp"
#include "run/sparse_exchange.hpp"

namespace tapa {

/// State of one intracommunicator. Methods may be called from several threads, but for those that are
/// collective; only these wait for other ranks.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  explicit CommState(MPI_Comm user);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  /// Sets it up, unless it is. Collective; `user` is the communicator that it hangs on. Throws CallError when
  /// that failed, then and ever after. `in_world`: its ranks in the process's world, if they are known to be
  /// of it.
  void set_up(MPI_Comm user, std::vector<int> in_world = {});
  /// The same for MPI_COMM_WORLD, whose world has just been made: without a word. `began`: when that began,
  /// MPI_Wtime().
  void set_up_whole(const std::shared_ptr<World>& world, double began);

  /// For a blocking call of a program that knows nothing of the library: sets it up. Collective. True: it is.
  /// Never throws: what a guest cannot set up stays with MPI. `alone`: also one of one rank.
  [[nodiscard]] bool welcome(MPI_Comm user, bool alone) noexcept;
  /// Whether the set-up has failed for good: calls are MPI's without a word between the ranks.
  [[nodiscard]] bool given_up() const { return given_up_; }

  /// Whether it is set up.
  [[nodiscard]] bool ready() const { return ready_.load(std::memory_order_acquire); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  // The rest needs ready().

  /// Its place in its world.
  [[nodiscard]] const Membership& membership() const { return membership_; }
  /// Where its messages go. Tags are dealt out by the call order.
  [[nodiscard]] const MessageSpace& space() const { return space_; }
  /// For calls on the communicator, until another option is set.
  [[nodiscard]] const Rules& rules() const { return *rules_of_calls_.load(std::memory_order_acquire); }
  /// The same, for whoever outlives a call.
  [[nodiscard]] std::shared_ptr<const Rules> held_rules() const;
  /// Sets an option; later operations see it. Collective: waits until earlier ones have begun. Throws
  /// std::invalid_argument.
  void set_option(std::string_view name, std::string_view value);

  /// Whether it is still to be asked whether ranks use GPUs, in the first blocking call: this was set up
  /// before that.
  [[nodiscard]] bool gpus_are_open() const { return gpus_are_open_.load(std::memory_order_relaxed); }
  /// Asks. Collective. Throws CallError.
  void ask_for_gpus(MPI_Comm user);
  /// What the ranks agree with before each blocking call, where buffers in GPU memory go by the engine; else
  /// null.
  [[nodiscard]] DeviceCalls* device_calls() {
    return device_calls_ && rules().device.way == DeviceWay::engine ? &*device_calls_ : nullptr;
  }
  /// Frees what serves such buffers. Collective: when the communicator is freed, or MPI_Finalize has begun.
  void release_device();

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

  /// How ranks wait for each other.
  [[nodiscard]] Waiter waiter() const { return {space_.comm, membership_.world->shm(), rules().wait}; }
  /// The run of calls that go through memory at once, one at a time.
  [[nodiscard]] MemoryRun& memory_run() { return memory_run_; }

  /// That of sparse exchanges, which are one at a time too; made when it is first asked for.
  [[nodiscard]] SparseExchange& sparse_exchange() {
    if (!sparse_exchange_) sparse_exchange_ = std::make_unique<SparseExchange>(rank_, size_);
    return *sparse_exchange_;
  }

  /// The rows of the report so far.
  [[nodiscard]] std::vector<ReportRow> report_rows() const;

  /// Gives back what it has of its world; nothing may be in flight.
  void release();

 private:
  void adopt(Membership membership);
  void come_to_life(MPI_Comm user, double began);
  void use_device_comm();
  void follow(const std::shared_ptr<const Options>& options, MachineView machine);
  void wait_for_turns();

  mutable std::mutex mutex_;
  int rank_ = 0;
  int size_ = 0;
  std::string name_;       // for the report
  bool given_up_ = false;  // a guest's: MPI has it for good
  std::atomic<bool> ready_ = false;
  std::unique_ptr<SetupError> failure_;
  Membership membership_;
  MessageSpace space_;
  std::optional<CommParts> parts_;  // from the set-up on
  std::shared_ptr<const Rules> rules_;
  std::atomic<const Rules*> rules_of_calls_ = nullptr;  // the same
  std::atomic<bool> gpus_are_open_ = false;
  std::optional<DeviceCalls> device_calls_;
  MemoryRun memory_run_;
  std::unique_ptr<SparseExchange> sparse_exchange_;
};

}  // namespace tapa
