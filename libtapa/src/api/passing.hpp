/// @file
/// The shortest way to MPI, for calls on communicators that are not set up. What they cost beyond MPI's own
/// call the program pays in each of them.
#pragma once

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// The state of a blocking call's communicator when the call is like one that was remembered and again MPI's,
/// as it was made: nothing of it has to be looked at, nor does any rank expect a word. It is counted then.
/// Else null. The state lives until a communicator is freed.
[[nodiscard]] CommState* passes_for(const Arguments& arguments);

/// MPI gets this call as it was made, as the ranks do not want the state to be set up yet.
void remember_passing(const Arguments& arguments, CommState& state);

/// Whether a nonblocking call is MPI's as it was made, as an earlier one of this thread on the communicator
/// was: it is still not set up.
[[nodiscard]] bool passes_nonblocking(const Arguments& arguments);

/// A nonblocking call was MPI's, as its communicator is not set up.
void remember_not_ready(MPI_Comm comm);

}  // namespace tapa
