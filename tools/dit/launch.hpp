/// @file
/// What a launcher (mpirun, srun with PMI) told this process, before any MPI library was opened.
#pragma once

#include <chrono>
#include <optional>

namespace dit::tool {

struct Launch {
  int rank = 0;
  int size = 1;
};
/// Empty when no launcher started this process.
[[nodiscard]] std::optional<Launch> launch_from_environment();

/// How long another rank waits before it says what rank 0 may be about to say as well: ranks start together,
/// so the longer this one took to come here, the longer rank 0 may take on a busy machine.
[[nodiscard]] std::chrono::duration<double> time_for_rank_0();

}  // namespace dit::tool
