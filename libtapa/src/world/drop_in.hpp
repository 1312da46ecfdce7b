/// @file
/// The library inside a program that knows nothing of it, and what the report says of the program.
#pragma once

#include <mpi.h>

#include <string>

namespace tapa {

/// Whether the drop-in has loaded the library: what is not set up is MPI's. Set once, before the first call.
void become_drop_in();
[[nodiscard]] bool is_drop_in();

/// Says once in a process why its all-to-alls stay with MPI.
void warn_all_is_mpis(const std::string& why);

/// Communicators that were set up so far, and how long that took, for the report: locked<SetupTotal>().
struct SetupTotal {
  int setups = 0;
  double seconds = 0;
};

/// The report's clock begins; later calls do nothing. Seconds since then.
void begin_clock();
[[nodiscard]] double seconds_since_beginning();

}  // namespace tapa
