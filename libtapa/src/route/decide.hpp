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

/// Whether calls on `comm` are always MPI's: of intercommunicators, of programs that only use sessions, as
/// states hang on MPI_COMM_SELF, and once MPI_Finalize has begun. Throws CallError.
[[nodiscard]] bool is_mpis_own(MPI_Comm comm);

/// Whether `comm` is an intercommunicator. Throws CallError.
[[nodiscard]] bool is_intercomm(MPI_Comm comm);

/// Number of peers: the size of an intracommunicator, the remote size of an intercommunicator.
[[nodiscard]] int peers_of(MPI_Comm comm);

/// The edges of a communicator's topology; null: none, or calls on it are MPI's. Local. Throws CallError.
[[nodiscard]] const Edges* edges_at(MPI_Comm comm, bool nonblocking);

/// A blocking call that is like one of this thread's last ones: its route, with a claim. False: it is none.
[[nodiscard]] bool decide_like_before(const Arguments& arguments, Route& route);

/// Blocking: `memory`, its buffers claimed, `device`, `mpi`, or `plan`, with `how` staged: on copies in host
/// memory. Persistent: `mpi` or `plan`. Both are collective, and set the communicator up where it is not.
/// Nonblocking: the same, but local, and claim_later() may better `plan`. Arguments are right, as far as
/// option "check" asks; under the drop-in wrong ones are MPI's to say so. Throws CallError, also for memory
/// of a GPU that no way knows.
template <Mode mode>
[[nodiscard]] Route decide(const Arguments& arguments);

// Calls that begin at once, as ranks share memory, no earlier call waits and nothing has to be agreed. A
// place in the order of calls would cost as much as a short exchange.

/// Of a checked blocking call on host memory: `memory`, its buffers claimed, `mpi`, or an untouched `plan`.
[[nodiscard]] Route claim(const Arguments& arguments, CommState& state);

/// The same where the blocks are known to be equal.
[[nodiscard]] Route claim_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks);

/// Of a checked nonblocking call on host memory: `memory`, claimed, where blocks are dense, or `plan`.
[[nodiscard]] Route claim_later(const Arguments& arguments, CommState& state);

/// A call that is not blocking on host copies, not fetched yet; null: nothing of it is on a GPU. Local.
[[nodiscard]] std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, const CommState& state);

/// Whether a call has buffers in GPU memory that MPI does not take, by what this process alone knows: it can
/// be staged whatever the others do. Throws CallError for wrong types.
[[nodiscard]] bool must_stage_for_mpi(const Arguments& arguments);

}  // namespace tapa
