/// @file
/// What all entry points have in common: a call is checked, gets its route, and is carried out.
#pragma once

#include <mpi.h>

#include <memory>

#include "carry/choosing.hpp"
#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// The state of an intracommunicator, set up. Collective. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> ready_state(MPI_Comm comm);

/// Carries out a blocking call and returns its MPI code.
int run_blocking(const Arguments& arguments);

/// The same for a nonblocking call, and for making a persistent request, which is collective.
int run_nonblocking(const Arguments& arguments, MPI_Request* request);
int run_init(const Arguments& arguments, MPI_Request* request);

/// A call along the edges of the communicator's topology, which are still to be found. `request`: of one that
/// is not blocking.
int run_neighbours(Arguments arguments, Mode mode, MPI_Request* request = nullptr);

}  // namespace tapa
