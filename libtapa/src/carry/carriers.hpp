/// @file
/// The ways that carry a call out: through memory at once, by MPI, and in the order of calls, to the end or
/// as requests.
#pragma once

#include <mpi.h>

#include <memory>

#include "carry/operation.hpp"
#include "route/route.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/staged_call.hpp"

namespace tapa {

// Through memory at once.

/// Carries out a call whose route is `memory`, and gives the claim back. False, on all ranks: it goes on as
/// `plan`, as ends of a block differ, or `mpi`, as a rank has no memory to pack. Throws TransportError.
[[nodiscard]] bool run_at_once(const Arguments& arguments, Route& route);

/// Starts a nonblocking call on `memory`; the claim ends with it: now, where all has come. Throws CallError.
void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request);

// By MPI. It may call error handlers: nothing that needs a destructor is alive meanwhile.

/// A call is left to MPI: says in `route` how MPI gets it, and checks arguments in linked programs. A
/// blocking call goes in bytes, packed here, where MPI may get it wrong: blocks that are not dense, equal
/// buffers, and MPI_Alltoallw on one rank (Open MPI 4.1 takes its displacements for elements); on copies in
/// host memory where MPI does not take GPU memory. Throws CallError, CudaError.
void hand_over(const Arguments& arguments, Mode mode, Route& route);

/// Hands it over and returns MPI's code. Where MPI has no large counts they are narrowed, or an error; blocks
/// in bytes for which there is no memory go as they were made. Where MPI may not take GPU memory, nonblocking
/// calls with such buffers are staged, and persistent ones an error.
int run_by_mpi(const Arguments& arguments, const Route& route, Mode mode, MPI_Request* request);

/// Whether it has made a persistent request: then others than ours may be meant where requests are taken.
[[nodiscard]] bool has_forwarded_init();

// In the order of calls, and requests.

/// Throws CallError unless `request` may take a new request.
inline void require_request(const MPI_Request* request) {
  if (request == nullptr) refuse(MPI_ERR_ARG, "request is null, expected the address of an MPI_Request");
}

/// The request of a task that makes progress from now on. Throws CallError.
void submit(std::unique_ptr<Task> task, MPI_Request* request);

/// An operation that was begun (see there), one with memory where there is one. Thread-safe.
[[nodiscard]] std::unique_ptr<Operation> begin_operation(std::shared_ptr<CommState> state, Mode mode,
                                                         const char* function, MPI_Comm comm = MPI_COMM_NULL);

/// Runs it to its end. False: MPI is to carry it out, see `route`. Throws CallError when it failed.
bool run_to_end(std::unique_ptr<Operation> operation, Route& route);

/// The request of an operation that was begun and filled. `keep` is held while it is in use; `comm`: whose
/// error handler a persistent one minds; `staged`: copies of buffers in GPU memory on which it works, or
/// null. False, on all ranks: too many persistent requests of the communicator live. Throws CallError.
[[nodiscard]] bool submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                                    MPI_Comm comm, MPI_Request* request,
                                    std::unique_ptr<StagedCall> staged = nullptr);

}  // namespace tapa
