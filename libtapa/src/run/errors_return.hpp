/// @file
/// An error handler that returns.
#pragma once

#include <mpi.h>

namespace tapa {

#if MPI_ABI_VERSION > 0
inline void return_error(MPI_Comm*, int*, ...) {}
#endif

/// MPI_ERRORS_RETURN. Where it is the standard's (libmpi_abi), one of ours that does the same: Intel MPI up
/// to 2021.19 ends the program there instead.
[[nodiscard]] inline MPI_Errhandler errors_return() {
#if MPI_ABI_VERSION > 0
  static const MPI_Errhandler ours = [] {
    MPI_Errhandler made = MPI_ERRORS_RETURN;
    PMPI_Comm_create_errhandler(return_error, &made);
    return made;
  }();
  return ours;
#else
  return MPI_ERRORS_RETURN;
#endif
}

}  // namespace tapa
