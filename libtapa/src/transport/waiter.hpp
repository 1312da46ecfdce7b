/// @file
/// One way of waiting for other ranks that leaves the cores to ranks that have work when ranks outnumber
/// cores, and keeps MPI moving meanwhile.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdint>

#include "transport/shm_node.hpp"
#include "transport/yield_policy.hpp"

namespace tapa {

/// How a blocked rank waits.
enum class WaitPolicy : std::uint8_t {
  spin,   ///< polls, as every rank has a core; gives it away when somebody else turns out to want it
  yield,  ///< gives the core away between polls
  sleep   ///< sleeps on the node's doorbell when only ranks of its own node can wake it, else yields
};

/// Pauses between polls. `comm` and `node` are borrowed; `node` may be null.
class Waiter {
 public:
  Waiter(MPI_Comm comm, ShmNode* node, WaitPolicy policy) : comm_(comm), node_(node), policy_(policy) {}

  /// The pause after `idle` polls without success. `may_sleep`: only ranks of the node can end the wait, and
  /// ready() then says whether it has ended.
  template <typename Ready>
  void pause(int idle, bool may_sleep, const Ready& ready) {
    if (policy_ == WaitPolicy::spin) {
      core().gives_away(idle) ? yield_core() : relax();
    } else if (policy_ == WaitPolicy::yield || !may_sleep || node_ == nullptr) {
      sched_yield();
    } else if (idle < kSpins) {
      relax();
    } else {
      node_->sleep(kSleepMicroseconds, ready);
      drive_mpi();
    }
  }

  /// To be called at each poll that MPI has no part in: MPI may still hold bytes that other nodes wait for,
  /// although their sends are complete here.
  void count_quiet_poll() {
    if (++quiet_ % kQuietPolls == 0) drive_mpi();
  }

  /// The least pause.
  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  /// Lets MPI get on with all that is under way.
  void drive_mpi() {
    int flag = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int kSpins = 20;  // polls before a rank goes to sleep
  // Asleep, a rank does not drive MPI; it wakes this often to do so.
  static constexpr long kSleepMicroseconds = 1000;
  static constexpr unsigned kQuietPolls = 64;

  static_assert(YieldPolicy::kMostPolls < kQuietPolls, "MPI may give the core away too");

  static YieldPolicy& core() {
    thread_local constinit YieldPolicy core;
    return core;
  }

  static void yield_core() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point before = Clock::now();
    sched_yield();
    core().came_back(Clock::now() - before);
  }

  MPI_Comm comm_;
  ShmNode* node_;
  WaitPolicy policy_;
  unsigned quiet_ = 0;  // polls since MPI was last driven
};

}  // namespace tapa
