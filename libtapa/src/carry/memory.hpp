/// @file
/// Calls that go through memory at once.
#pragma once

#include <mpi.h>

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Carries out a call whose route is `memory`, and gives the claim back. False, on all ranks: the route says
/// how it goes on. `plan`: the two ends of some block differ, and an Operation finds out of which; `mpi`:
/// some rank has no memory for packed blocks. Throws TransportError.
[[nodiscard]] bool run_at_once(const Arguments& arguments, Route& route);

/// Starts a nonblocking call whose route is `memory`, which gives the claim back at its end. Where all has
/// come already that is now, and nothing is kept. Throws CallError.
void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request);

}  // namespace tapa
