/// @file
/// A step of each rank that all ranks have to know of before they go on together.
#pragma once

#include <mpi.h>

#include <concepts>
#include <exception>

#include "run/error.hpp"

namespace tapa {

/// Whether it is true on all ranks. Collective over `comm`, and no rank returns before all have come. Throws
/// CallError where MPI fails.
[[nodiscard]] inline bool on_all_ranks(MPI_Comm comm, bool here) {
  int all = here ? 1 : 0;
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return all != 0;
}

/// The same of a step, whether it ended well; what it throws goes no further.
template <std::invocable Step>
[[nodiscard]] bool on_all_ranks(MPI_Comm comm, const Step& step) {
  bool well = true;
  try {
    step();
  } catch (const std::exception&) {
    well = false;
  }
  return on_all_ranks(comm, well);
}

}  // namespace tapa
