/// @file
/// The report at finalize as text. Pure: rows in, text out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/rank_order.hpp"
#include "report/lateness.hpp"
#include "report/report.hpp"
#include "report/traffic.hpp"

namespace tapa {

/// What the head of the report says beside the rows.
struct ReportHead {
  int ranks = 0;       ///< of the job
  double seconds = 0;  ///< that the program has run
  std::string since;   ///< from when on: "MPI_Init"
  int setups = 0;      ///< communicators that were set up
  double setup_seconds = 0;
  std::string results;                  ///< what was used of earlier runs, or ""
  Lateness lateness = {};               ///< of all ranks; no calls: it is not known
  std::vector<LevelBytes> levels = {};  ///< of all ranks, fast to slow; none: they are not known
  std::optional<OrderAdvice> order = std::nullopt;
};

/// The name of an entry point as the program wrote it: under the drop-in it called MPI's ("TAPA_Ialltoallv"
/// -> "MPI_Ialltoallv"), MPIX_ for persistent ones where `mpix`.
[[nodiscard]] std::string name_in_program(std::string_view function, bool drop_in, bool mpix);

/// What a reader can tell a communicator without a name by: "ranks 0, 4, ... 12 of MPI_COMM_WORLD". `world`:
/// the ranks of MPI_COMM_WORLD that its ranks are, in order; `size`: of MPI_COMM_WORLD.
[[nodiscard]] std::string describe_ranks(std::span<const int> world, int size);

/// First, with a head, what all calls of this process come to: their number, the shares that were taken and
/// forwarded, their time, and what they saved or lost against MPI where enough samples tell. Then a table for
/// each communicator of which this process is rank 0, as that rank saw it. Empty when there is neither.
[[nodiscard]] std::string format_report(const std::vector<ReportRow>& rows,
                                        const std::optional<ReportHead>& head);

}  // namespace tapa
