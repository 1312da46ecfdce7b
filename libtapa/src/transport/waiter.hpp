/// @file
/// One way of waiting for other ranks that leaves the cores to ranks that have work when ranks outnumber
/// cores, and keeps MPI moving meanwhile.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "transport/shm_node.hpp"

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
      idle < core().polls ? relax() : yield_core();
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

  /// What this thread knows of its core: how many polls to make before it is given away.
  struct Core {
    int polls = kMostPolls;
  };
  static constexpr int kMostPolls = 60;  // below kQuietPolls: MPI may give the core away too
  static constexpr int kLeastPolls = 4;

  static Core& core() {
    thread_local Core core;
    return core;
  }

  /// Gives the core away. That takes 0.2 us when nobody wants it, and over 1 us when somebody does.
  static void yield_core() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::nanoseconds alone(700);
    const Clock::time_point before = Clock::now();
    sched_yield();
    int& polls = core().polls;
    polls =
        Clock::now() - before > alone ? std::max(polls / 2, kLeastPolls) : std::min(polls + 4, kMostPolls);
  }

  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  MPI_Comm comm_;
  ShmNode* node_;
  WaitPolicy policy_;
  unsigned quiet_ = 0;  // polls since MPI was last driven
};

}  // namespace tapa
