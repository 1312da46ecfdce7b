/// @file
/// What all entry points have in common: a call is checked, gets its route, and is carried out.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// The state of an intracommunicator, set up. Collective. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> ready_state(MPI_Comm comm);

/// Carries out, starts, or makes a persistent request of, a call; returns its MPI code. The last is
/// collective. `request`: of one that is not blocking.
int run(const Arguments& arguments, Mode mode = Mode::blocking, MPI_Request* request = nullptr);

/// The same along the edges of the communicator's topology, which are still to be found.
int run_along_edges(Arguments arguments, Mode mode = Mode::blocking, MPI_Request* request = nullptr);

}  // namespace tapa
