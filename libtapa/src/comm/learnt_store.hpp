/// @file
/// What earlier runs of this user's programs have found, from a file and to it (TAPA_CACHE). A guest's: what
/// cannot be read or written is left, with a line at TAPA_LOG=info.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "autotune/learnt.hpp"
#include "comm/options.hpp"

namespace tapa {

/// The file that these options name, "" when there is none: it is off, there is no home or it is another
/// user's, or the program runs with rights that its user does not have.
[[nodiscard]] std::string learnt_file(const Options& options);

/// The first call: what is named by a relative path is meant from here.
void note_folder();

/// Days since 1970, 1 at least.
[[nodiscard]] int today();

/// What the file holds now; nothing where there is none, or none that can be read.
[[nodiscard]] Learnt read_learnt(const std::string& file);

/// Puts it there, whole or not at all; readable by the user alone. Why it could not, or "".
[[nodiscard]] std::string write_learnt(const std::string& file, const Learnt& learnt);

/// What that says of communicators of so many ranks, as text for parse_learnt(), or "". The file is read
/// once.
[[nodiscard]] std::string learnt_for(const Options& options, int ranks);

/// What to do with a new communicator of so many ranks in a program that knows nothing of the library.
struct LearntAdvice {
  bool at_once = false;   ///< the set-up pays in the first call
  bool hopeless = false;  ///< it has never paid
};
[[nodiscard]] LearntAdvice learnt_advice(const Options& options, int ranks);

/// Numbers of ranks of communicators that are worth a talk in their first call, at most `most`; as this
/// process has it from the file.
[[nodiscard]] std::vector<int> early_sizes(std::size_t most);
/// What rank 0 of the job has answered; once, in MPI_Init.
void talk_early(std::vector<int> sizes);
[[nodiscard]] bool talks_early(int ranks);

/// What a communicator has found of which this process is rank 0; sizes of its that used what was known.
void note_learnt(LearntShape shape, int sizes_used, int sizes_refuted, bool set_up_early);
/// One was never set up; MPI took so long in it.
void note_life(int ranks, double seconds);
/// So much goes to the account of communicators of that many ranks, see learnt_account.hpp: what MPI took in
/// one that is not set up (below 0: in one that was not, and is now), or what a saving is worth. Little is
/// left.
void pay_account(int ranks, double seconds);
/// Seconds on the account of such communicators that this process may still draw; of the job's rank 0, else
/// 0.
[[nodiscard]] double account_left(int ranks);
/// A set-up was paid with so much of it.
void draw_account(int ranks, double seconds);
/// Whether this process keeps such notes: rank 0 of the job, unless it is off.
[[nodiscard]] bool keeps_learnt();

/// For the report: what was used of it; "" where it is off.
[[nodiscard]] std::string learnt_report();

/// Writes what was noted, if it is new. The file is there whole or not at all, and jobs that end together do
/// not damage it: the last one's results stay.
void save_learnt() noexcept;

}  // namespace tapa
