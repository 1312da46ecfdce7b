/// @file
/// Calls that go through memory at once.
#pragma once

#include <mpi.h>

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Carries out a call whose route is `memory`, and gives the claim back. False: the two ends of some block
/// differ, as all ranks know; an Operation finds out which. Throws TransportError.
[[nodiscard]] bool run_at_once(const Arguments& arguments, const Route& route);

/// Starts a nonblocking call whose route is `memory`, which gives the claim back at its end. Where all has
/// come already that is now, and nothing is kept. Throws CallError.
void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request);

}  // namespace tapa
