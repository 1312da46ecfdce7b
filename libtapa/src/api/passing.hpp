/// @file
/// The shortest way to MPI: blocking calls on communicators that are not set up, made again with other
/// buffers at most. What they cost beyond MPI's own call the program pays in each of them.
#pragma once

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// The state of the call's communicator when the call is like one that was remembered and again MPI's, as it
/// was made: nothing of it has to be looked at, nor does any rank expect a word. It is counted then. Else
/// null. The state lives until a communicator is freed.
[[nodiscard]] CommState* passes_for(const Arguments& arguments);

/// MPI gets this call as it was made, as the ranks do not want the state to be set up yet.
void remember_passing(const Arguments& arguments, CommState& state);

}  // namespace tapa
