/// @file
/// Calls that go through memory at once.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// How it has ended, as all ranks know.
enum class MemoryEnd : std::uint8_t {
  done,
  sizes_differ,  ///< the two ends of some block differ; an Operation finds out of which
  no_memory,     ///< some rank has none for packed blocks: the call is MPI's
};

/// Carries out a call whose route is `memory`, and gives the claim back. Throws TransportError.
[[nodiscard]] MemoryEnd run_at_once(const Arguments& arguments, const Route& route);

/// Starts a nonblocking call whose route is `memory`, which gives the claim back at its end. Where all has
/// come already that is now, and nothing is kept. Throws CallError.
void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request);

}  // namespace tapa
