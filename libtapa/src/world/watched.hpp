/// @file
/// Waiting for the other ranks to make their first call on a communicator, in a way that can be told.
#pragma once

#include <mpi.h>

#include "run/error.hpp"
#include "run/unfinished.hpp"
#include "world/process_options.hpp"

namespace tapa {

/// Waits for what was begun by a nonblocking collective. With TAPA_TIMEOUT it says now and then of which
/// ranks nothing has come: `missing()` gives them. Throws CallError.
template <class Missing>
void wait_watched(MPI_Request& request, const Missing& missing) {
  const double timeout = own_options().settings().timeout;
  if (timeout <= 0) return check_mpi(PMPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  Watch watch("set-up", timeout);
  for (int complete = 0; complete == 0;) {
    check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (complete != 0) return;
    watch.look([&] {
      return "waits for the other ranks of the communicator to make their first call: " +
             ranks_text(missing());
    });
  }
}

}  // namespace tapa
