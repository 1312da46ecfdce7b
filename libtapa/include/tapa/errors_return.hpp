/** @file
 * An error handler that returns.
 */
#ifndef TAPA_ERRORS_RETURN_HPP
#define TAPA_ERRORS_RETURN_HPP

#include <mpi.h>

#include <cstring>

namespace tapa {

/** @cond internal */
#if MPI_ABI_VERSION > 0
namespace detail {
inline void return_error(MPI_Comm*, int*, ...) {}
}  // namespace detail
#endif
/** @endcond */

/** MPI_ERRORS_RETURN. With Intel MPI's library of the standard's interface (libmpi_abi) one of ours that does
 * the same: up to 2021.19 it ends the program there instead. MPICH's returns success behind a handler. */
[[nodiscard]] inline MPI_Errhandler errors_return() {
#if MPI_ABI_VERSION > 0
  static const MPI_Errhandler ours = [] {
    MPI_Errhandler made = MPI_ERRORS_RETURN;
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    PMPI_Get_library_version(library, &length);
    if (std::strncmp(library, "Intel", 5) == 0) PMPI_Comm_create_errhandler(detail::return_error, &made);
    return made;
  }();
  return ours;
#else
  return MPI_ERRORS_RETURN;
#endif
}

}  // namespace tapa

#endif /* TAPA_ERRORS_RETURN_HPP */
