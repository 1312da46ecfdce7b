/// @file
/// What competitions have found, for new communicators of their shape and, by TAPA_CACHE's file, later runs.
#pragma once

#include <string>

#include "autotune/results.hpp"
#include "world/options.hpp"

namespace tapa {

class CommState;
struct CommParts;

/// What this process's findings depend on: versions, processor, settings, ranks of the job. After MPI_Init.
[[nodiscard]] ResultsWhere results_where(const Options& options);

/// The file that these options name; "" where they name none, alike on all ranks that have them.
[[nodiscard]] std::string results_file(const Options& options);

/// Days since 1970, 1 at least.
[[nodiscard]] int today();

/// What a file holds; nothing where it cannot be read, with a line at TAPA_LOG=info if there is one.
[[nodiscard]] Results read_results(const std::string& path);

/// What process and file, read once, know of communicators of so many ranks, for recall_results(); or "".
[[nodiscard]] std::string results_for(const Options& options, int ranks);

/// What a communicator begins with, by rank 0's text on all its ranks. Throws std::invalid_argument.
void recall_results(const std::string& text, CommParts& parts);

/// Notes what a communicator has found, on its rank 0. Once, before it or MPI ends.
void keep_results(CommState& state) noexcept;

/// For the report: what was used of it; "" where there is none.
[[nodiscard]] std::string results_report();

/// Writes what was noted, if it is new. Of jobs that end together the last one's results stay.
void save_results() noexcept;

}  // namespace tapa
