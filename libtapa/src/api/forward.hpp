/// @file
/// Calls that are MPI's own: handed to it as they were made, before any check. What it finds wrong it tells
/// to the error handler itself, so nothing that needs a destructor is alive while it runs.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "run/arguments.hpp"

namespace tapa {

/// Whether calls on `comm` are always MPI's: intercommunicators (in which one group may send nothing), and
/// programs that only use sessions, as states hang on MPI_COMM_SELF; all, once MPI_Finalize has begun. Throws
/// CallError.
[[nodiscard]] bool is_mpis_own(MPI_Comm comm);

/// What a blocking call is handed over as.
enum class HandOver : std::uint8_t { as_made, bytes, staged };

/// Whether MPI may get a blocking call on an intracommunicator wrong as it was made: blocks that are not
/// dense, equal buffers, and MPI_Alltoallw on one rank (Open MPI 4.1 takes its displacements for elements).
/// It is handed over in bytes, packed here. Throws CallError.
[[nodiscard]] bool wants_bytes(const Arguments& arguments);

/// Whether a blocking call has buffers in GPU memory that MPI does not take. It is handed over on copies in
/// host memory. Throws CallError, CudaError.
[[nodiscard]] bool wants_staging(const Arguments& arguments);

/// Hand a call over and return MPI's code. Where MPI has no large counts they are narrowed; what cannot be
/// narrowed is an error; blocks in bytes for which there is no memory go as they were made. `as_made`: the
/// ranks agreed that MPI gets it so; else buffers in GPU memory that MPI does not take are staged, or an
/// error in a persistent call.
int forward_blocking(const Arguments& arguments, HandOver how);
int forward_nonblocking(const Arguments& arguments, bool as_made, MPI_Request* request);
int forward_init(const Arguments& arguments, bool as_made, MPI_Request* request);

/// Whether forward_init() has made a request: then others than ours may be meant where requests are taken.
[[nodiscard]] bool has_forwarded_init();

}  // namespace tapa
