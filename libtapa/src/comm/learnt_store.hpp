/// @file
/// What competitions have found: of the communicators of this process, and of earlier runs, from the file
/// that TAPA_CACHE names and to it. A guest's: what cannot be read or written is left, with a line at
/// TAPA_LOG=info.
#pragma once

#include <mpi.h>

#include <string>

#include "autotune/learnt.hpp"
#include "world/options.hpp"

namespace tapa {

/// The file that these options name; "" where they name none.
[[nodiscard]] std::string learnt_file(const Options& options);

/// Days since 1970, 1 at least.
[[nodiscard]] int today();

/// What the file holds now; nothing where there is none, or none that can be read.
[[nodiscard]] Learnt read_learnt(const std::string& file);

/// Puts it there, whole or not at all. Why it could not, or "".
[[nodiscard]] std::string write_learnt(const std::string& file, const Learnt& learnt);

/// Whether options name a file; alike on all ranks that have them.
[[nodiscard]] bool names_learnt_file(const Options& options);

/// What this process and that file know of communicators of so many ranks, as text for parse_learnt(), or "".
/// The file is read once.
[[nodiscard]] std::string learnt_for(const Options& options, int ranks);

/// What a communicator has found of which this process is rank 0; sizes of its that used what was known.
void note_learnt(LearntShape shape, int sizes_used, int sizes_refuted);

/// For the report: what was used of it; "" where there is none.
[[nodiscard]] std::string learnt_report();

/// Writes what was noted, if it is new. The file is there whole or not at all, and jobs that end together do
/// not damage it: the last one's results stay.
void save_learnt() noexcept;

}  // namespace tapa
