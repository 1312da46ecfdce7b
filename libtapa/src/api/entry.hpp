/// @file
/// What all entry points have in common: finding the communicator's state, checking, running, reporting
/// errors.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm_state.hpp"
#include "comm/operation.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Throws CallError unless MPI is initialized, not finalized, and `comm` is not null.
void require_comm(MPI_Comm comm);

/// Whether `comm` is an intercommunicator, whose calls are MPI's. Throws CallError.
[[nodiscard]] bool is_intercomm(MPI_Comm comm);

/// Number of peers: the size of an intracommunicator, the remote size of an intercommunicator.
[[nodiscard]] int peers_of(MPI_Comm comm);

/// Checks the arguments unless option "check" is off. The option counts once the state is ready.
void check_call(const Arguments& arguments, CommState& state);

/// Operations not in use, kept with their memory. Thread-safe.
[[nodiscard]] std::unique_ptr<Operation> acquire_operation();
void release_operation(std::unique_ptr<Operation> operation);

/// Runs an operation that was begun to its end and takes it back. Throws CallError when it failed.
void run_to_end(std::unique_ptr<Operation> operation);

/// The state of an intracommunicator, set up. Collective. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> ready_state(MPI_Comm comm);

/// The state for a call that may synchronise, when the library carries it out; null: MPI does. Collective.
/// `now`: the call will be made often, so the set-up pays at once. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> state_for_blocking(MPI_Comm comm, bool now);

/// Carries out a blocking call and returns its MPI code.
int run_blocking(const Arguments& arguments) noexcept;

}  // namespace tapa
