/// @file
/// Calls that are MPI's own. What it finds wrong it tells to the error handler itself, so nothing that needs
/// a destructor is alive while it runs.
#pragma once

#include <mpi.h>

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// A call is left to MPI: says in `route` how MPI gets it, and checks arguments in linked programs. A
/// blocking call goes in bytes, packed here, where MPI may get it wrong: blocks that are not dense, equal
/// buffers, and MPI_Alltoallw on one rank (Open MPI 4.1 takes its displacements for elements); on copies in
/// host memory where MPI does not take GPU memory. Throws CallError, CudaError.
void hand_over(const Arguments& arguments, Mode mode, Route& route);

/// Hands it over and returns MPI's code. Where MPI has no large counts they are narrowed, or an error; blocks
/// in bytes for which there is no memory go as they were made. Where MPI may not take GPU memory, nonblocking
/// calls with such buffers are staged, and persistent ones an error.
int run_by_mpi(const Arguments& arguments, const Route& route, Mode mode, MPI_Request* request);

/// Whether it has made a persistent request: then others than ours may be meant where requests are taken.
[[nodiscard]] bool has_forwarded_init();

}  // namespace tapa
