/// @file
/// Calls some of whose buffers are in GPU memory.
#pragma once

#include <memory>

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/staged_call.hpp"

namespace tapa {

/// Which way a checked blocking call takes; alike on all ranks, but for `stage`, which is `host` on ranks
/// with nothing in GPU memory. Collective where the device engine can serve the communicator. Throws
/// CallError: also for memory of a GPU that no way knows.
[[nodiscard]] CallWay way_of_call(const Arguments& arguments, CommState& state);

/// Carries out a call for which way_of_call() said `engine`.
void run_on_device(const Arguments& arguments, CommState& state);

/// The call on copies in host memory when something of it is in GPU memory, not fetched yet; else null. For
/// nonblocking and persistent calls of a state, and local.
[[nodiscard]] std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, CommState& state);

/// Whether a call that is handed to MPI has buffers that MPI does not take: in GPU memory, where neither an
/// option nor MPI itself says that it does. By what this process alone knows, as a call can be staged
/// whatever the others do. Throws CallError for wrong types.
[[nodiscard]] bool must_stage_for_mpi(const Arguments& arguments, int peers);

}  // namespace tapa
