/// @file
/// Operations in use: blocking ones run to their end, the others as MPI requests.
#pragma once

#include <mpi.h>

#include <memory>

#include "carry/operation.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/staged_call.hpp"

namespace tapa {

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
/// The same for one that MPI cannot carry out.
void run_to_end(std::unique_ptr<Operation> operation);

/// The request of an operation that was begun and filled. `keep` is held while it is in use; `comm`: whose
/// error handler a persistent one minds; `staged`: copies of buffers in GPU memory on which it works, or
/// null. False, on all ranks: too many persistent requests of the communicator live. Throws CallError.
[[nodiscard]] bool submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                                    MPI_Comm comm, MPI_Request* request,
                                    std::unique_ptr<StagedCall> staged = nullptr);

}  // namespace tapa
