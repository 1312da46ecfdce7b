/** @file
 * An error handler that returns.
 */
#ifndef TAPA_ERRORS_RETURN_HPP
#define TAPA_ERRORS_RETURN_HPP

#include <mpi.h>

namespace tapa {

/** @cond internal */
#if MPI_ABI_VERSION > 0
namespace detail {
inline void return_error(MPI_Comm*, int*, ...) {}
}  // namespace detail
#endif
/** @endcond */

/** MPI_ERRORS_RETURN. Where it is the standard's (libmpi_abi), one of ours that does the same: Intel MPI up
 * to 2021.19 ends the program there instead. */
[[nodiscard]] inline MPI_Errhandler errors_return() {
#if MPI_ABI_VERSION > 0
  static const MPI_Errhandler ours = [] {
    MPI_Errhandler made = MPI_ERRORS_RETURN;
    PMPI_Comm_create_errhandler(detail::return_error, &made);
    return made;
  }();
  return ours;
#else
  return MPI_ERRORS_RETURN;
#endif
}

}  // namespace tapa

#endif /* TAPA_ERRORS_RETURN_HPP */
