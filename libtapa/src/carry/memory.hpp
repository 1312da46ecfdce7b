/// @file
/// Calls that go through memory at once.
#pragma once

#include <mpi.h>

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Carries out a call whose route is `memory`, and gives the claim back. False, on all ranks: it goes on by
/// the route. `plan`: the two ends of some block differ, which an Operation names; `mpi`: some rank has no
/// memory for packed blocks. Throws TransportError.
[[nodiscard]] bool run_at_once(const Arguments& arguments, Route& route);

/// Starts a nonblocking call whose route is `memory`, which gives the claim back at its end: now, where all
/// has come already. Throws CallError.
void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request);

}  // namespace tapa
