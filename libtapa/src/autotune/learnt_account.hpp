/// @file
/// What programs that are too short for a set-up leave to later runs: how long MPI's all-to-alls took on
/// communicators that were never set up. The next runs count on from there, so that a set-up is paid for once
/// by many short runs as by one long one, and costs them no larger share. Pure: no MPI, no files.
#pragma once

#include <vector>

#include "autotune/learnt.hpp"

namespace tapa {

/// At most so many accounts are kept and read, the last used ones; longer texts (of an MPI's version) leave
/// room for fewer.
inline constexpr std::size_t kMostLearntAccounts = 16;
inline constexpr std::size_t kMostLearntAccountBytes = kMostLearntBytes / 4;
/// Seconds: no more is counted, as an account pays for few set-ups before plans are known or given up.
inline constexpr double kMostLearntAccount = 10;

/// Seconds on the account of communicators of `ranks` ranks; 0 where there is none, or it is older than
/// kLearntDays.
[[nodiscard]] double account_of(const Learnt& learnt, const LearntWhere& where, int ranks, int today);

/// Gives up accounts that are empty, too old, or too many.
void give_up_old(std::vector<LearntAccount>& accounts, int today);

/// Pays in (or, below 0, draws) seconds; then the same.
void settle(Learnt& learnt, const LearntWhere& where, int ranks, double seconds, int today);

/// About what the accounts need in the file, and rather more.
[[nodiscard]] std::size_t bytes_of_accounts(const std::vector<LearntAccount>& accounts);

}  // namespace tapa
