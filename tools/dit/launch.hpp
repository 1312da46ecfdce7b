/// @file
/// What a launcher (mpirun, srun with PMI) told this process, before any MPI library was opened.
#pragma once

#include <optional>

namespace dit::tool {

struct Launch {
  int rank = 0;
  int size = 1;
};
/// Empty when no launcher started this process.
[[nodiscard]] std::optional<Launch> launch_from_environment();

}  // namespace dit::tool
