/// @file
/// What competitions have found: of the communicators of this process, which a new one of their shape takes
/// over, and of earlier runs, from the file that TAPA_CACHE names and to it.
#pragma once

#include <string>

#include "autotune/results.hpp"
#include "world/options.hpp"

namespace tapa {

class CommState;
struct CommParts;

/// Where this process is, as far as what it finds depends on it: versions of libtapa and MPI, processor,
/// settings of both, ranks of the job. MPI_Init was called.
[[nodiscard]] ResultsWhere results_where(const Options& options);

/// The file that these options name; "" where they name none, alike on all ranks that have them.
[[nodiscard]] std::string results_file(const Options& options);

/// Days since 1970, 1 at least.
[[nodiscard]] int today();

/// What a file holds; nothing, with a line at TAPA_LOG=info that says why, where it cannot be read, is too
/// long, or is no regular file; without a line where there is none.
[[nodiscard]] Results read_results(const std::string& path);

/// What this process and that file know of communicators of so many ranks, as text for recall_results(), or
/// "". The file is read once.
[[nodiscard]] std::string results_for(const Options& options, int ranks);

/// What a communicator begins with; all its ranks have the same text, rank 0's, and the same topology. Throws
/// std::invalid_argument.
void recall_results(const std::string& text, CommParts& parts);

/// Notes what a communicator has found, on its rank 0. Once, before it or MPI ends.
void keep_results(CommState& state) noexcept;

/// For the report: what was used of it; "" where there is none.
[[nodiscard]] std::string results_report();

/// Writes what was noted, if it is new. The file is there whole or not at all, and jobs that end together do
/// not damage it: the last one's results stay.
void save_results() noexcept;

}  // namespace tapa
