/// @file
/// The library inside a program that knows nothing of it, and what the report says of the program.
#pragma once

#include <mpi.h>

#include <atomic>
#include <string>

#include "run/log.hpp"

namespace tapa {

/// Of the process.
struct DropIn {
  std::atomic<bool> is_here{false};
  std::atomic<double> beginning{0};  ///< of the report's clock
};
inline constinit DropIn drop_in{};

/// The report's clock begins; later calls do nothing. Seconds since then.
inline void begin_clock() {
  double none = 0;
  drop_in.beginning.compare_exchange_strong(none, PMPI_Wtime());
}
[[nodiscard]] inline double seconds_since_beginning() {
  return PMPI_Wtime() - drop_in.beginning;
}

/// Whether the drop-in has loaded the library: what is not set up is MPI's. Set once, before the first call.
inline void become_drop_in() {
  begin_clock();
  drop_in.is_here = true;
}
[[nodiscard]] inline bool is_drop_in() {
  return drop_in.is_here.load(std::memory_order_relaxed);
}

/// Says once in a process why its all-to-alls stay with MPI.
inline void warn_all_is_mpis(const std::string& why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) log_warn(why + "; all-to-all stays with MPI");
}

/// Communicators that were set up so far, and how long that took, for the report: locked<SetupTotal>().
struct SetupTotal {
  int setups = 0;
  double seconds = 0;
};

}  // namespace tapa
