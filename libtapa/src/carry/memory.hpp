/// @file
/// Calls that go through memory at once.
#pragma once

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Carries out a call whose route is `memory`, and gives the claim back. False: the two ends of some block
/// differ, as all ranks know; an Operation finds out which. Throws TransportError.
[[nodiscard]] bool run_at_once(const Arguments& arguments, const Route& route);

}  // namespace tapa
