/// @file
/// The library inside a program that knows nothing of it.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

namespace tapa {

/// Whether the drop-in has loaded the library: then a communicator begins with MPI's all-to-all, and nothing
/// of ours may end the program. Set once, before the first call. `at_once`: on some rank of the job an option
/// asks for the library from the first call on.
void become_guest(bool at_once);
[[nodiscard]] bool is_guest();
[[nodiscard]] bool sets_up_at_once();

/// How long a set-up of so many ranks is expected to take in this process; see SetupCost. Seconds.
[[nodiscard]] double setup_seconds(int ranks);
/// What one has taken.
void note_setup_seconds(int ranks, double seconds);

/// Of all communicators that were set up so far, for the report.
struct SetupTotal {
  int setups = 0;
  double seconds = 0;
};
[[nodiscard]] SetupTotal setup_total();

/// Whether this process's environment asks for the report, which then counts forwarded calls too.
[[nodiscard]] bool report_is_wanted();
/// A function's name as this program calls it.
[[nodiscard]] std::string name_here(std::string_view function);
/// The name that the program gave a communicator, or its ranks; "" where nothing is to be reported. Local.
[[nodiscard]] std::string name_for_report(MPI_Comm comm);
/// The report's clock begins; later calls do nothing. Seconds since then.
void begin_clock();
[[nodiscard]] double seconds_since_beginning();

}  // namespace tapa
