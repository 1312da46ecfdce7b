/// @file
/// The decision which way a call goes. What is not this library's to carry out is MPI's, with the reason;
/// what may begin only in the order of calls is `plan`, whose way is chosen when its turn comes.
#pragma once

#include <mpi.h>

#include <memory>

#include "route/route.hpp"
#include "run/arguments.hpp"
#include "run/staged_call.hpp"

namespace tapa {

/// Throws CallError when `comm` is null.
void require_comm(MPI_Comm comm);

/// Whether calls on `comm` are always MPI's: intercommunicators (in which one group may send nothing), and
/// programs that only use sessions, as states hang on MPI_COMM_SELF; all, once MPI_Finalize has begun. Throws
/// CallError.
[[nodiscard]] bool is_mpis_own(MPI_Comm comm);

/// Whether `comm` is an intercommunicator. Throws CallError.
[[nodiscard]] bool is_intercomm(MPI_Comm comm);

/// Number of peers: the size of an intracommunicator, the remote size of an intercommunicator.
[[nodiscard]] int peers_of(MPI_Comm comm);

/// What this rank sends to so many peers, in all.
[[nodiscard]] std::size_t bytes_sent(const Arguments& arguments, int peers);
/// The edges of a communicator's topology for blocking calls, or for others; null: it has none, or calls on
/// it are MPI's. Local. Throws CallError.
[[nodiscard]] const Edges* edges_at(MPI_Comm comm, bool nonblocking);

/// A blocking call that is like one of this thread's last ones: its route, with a claim. False: it is none.
[[nodiscard]] bool decide_like_before(const Arguments& arguments, Route& route);

/// The communicator's state, which is set up where it is not; or why the call is MPI's. The arguments are
/// right then, as far as option "check" asks. Under the drop-in MPI says what is wrong: the program then has
/// MPI's error class and error handler. For calls that may synchronise; collective. `alone`: also for one
/// rank. Throws CallError.
[[nodiscard]] Route decide_comm(const Arguments& arguments, bool alone);

/// A blocking call with right arguments on the communicator of a state. Collective where buffers may be in
/// GPU memory. `plan` with `how` staged: on copies in host memory. Throws CallError: also for memory of a GPU
/// that no way knows.
[[nodiscard]] Route decide_blocking(const Arguments& arguments, CommState& state);

/// Nonblocking and persistent calls are MPI's, or right and `plan`, which claim_later() may better. Local,
/// but decide_persistent() is what decide_comm() is.
[[nodiscard]] Route decide_nonblocking(const Arguments& arguments);
[[nodiscard]] Route decide_persistent(const Arguments& arguments);

// Calls that can begin at once: ranks that share memory, no earlier call that has not begun, nothing to be
// agreed. They need no place in the order of calls, whose bookkeeping would cost as much as a short
// exchange.

/// The route of a checked blocking call on host memory: `memory` with its buffers claimed, `mpi`, or else
/// `plan`, for which nothing was done.
[[nodiscard]] Route claim(const Arguments& arguments, CommState& state);

/// The same where the blocks are known to be equal.
[[nodiscard]] Route claim_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks);

/// The route of a checked nonblocking call on host memory: `memory` with its buffers claimed, where its
/// blocks are dense, or `plan`, for which nothing was done.
[[nodiscard]] Route claim_later(const Arguments& arguments, CommState& state);

/// The call on copies in host memory when something of it is in GPU memory, not fetched yet; else null. For
/// nonblocking and persistent calls on the communicator of a state, and local.
[[nodiscard]] std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, const CommState& state);

/// Whether a call that is handed to MPI has buffers that MPI does not take: in GPU memory, where neither an
/// option nor MPI itself says that it does. By what this process alone knows, as a call can be staged
/// whatever the others do. Throws CallError for wrong types.
[[nodiscard]] bool must_stage_for_mpi(const Arguments& arguments);

}  // namespace tapa
