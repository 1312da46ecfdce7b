/// @file
/// What the drop-in does in MPI_Init.
#pragma once

namespace tapa {

/// Makes the world of MPI_COMM_WORLD, and sets that up where its ranks share memory or plans may carry its
/// calls. Collective. What is not possible leaves all-to-all to MPI, on all ranks alike, and is said once.
/// Ends the job when only this rank knows of a failure.
void begin_guest() noexcept;

}  // namespace tapa
