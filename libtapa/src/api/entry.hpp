/// @file
/// What all entry points have in common: finding the communicator's state, checking, running, reporting
/// errors.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <type_traits>

#include "comm/comm_state.hpp"
#include "comm/operation_pool.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// Throws CallError when `comm` is null.
void require_comm(MPI_Comm comm);

/// Throws CallError unless `comm` can have a state: an intracommunicator, in a program that called MPI_Init.
void require_own_comm(MPI_Comm comm);

/// Whether `comm` is an intercommunicator. Throws CallError.
[[nodiscard]] bool is_intercomm(MPI_Comm comm);

/// Number of peers: the size of an intracommunicator, the remote size of an intercommunicator.
[[nodiscard]] int peers_of(MPI_Comm comm);

/// Checks the arguments as option "check" asks for. The option counts once the state is ready.
void check_call(const Arguments& arguments, CommState& state);

/// The state of an intracommunicator, set up. Collective. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> ready_state(MPI_Comm comm);

/// Bytes of every block of a call, or nothing where they may differ. Throws CallError.
[[nodiscard]] std::optional<std::size_t> uniform_bytes(const Arguments& arguments);

/// The state for a call that may synchronise, when the library carries it out; null: MPI does. Collective.
/// `alone`: also for one rank. Lives until a communicator is freed. Throws CallError.
[[nodiscard]] CommState* state_for_blocking(MPI_Comm comm, bool alone);

/// Checks the arguments of a call that is MPI's although the program asked for ours. Throws CallError.
void check_before_mpi(const Arguments& arguments);

/// Runs a call and returns its code: `ours` carries it out, or returns false, having done nothing; then
/// `mpis` hands it to MPI, when nothing of `ours` is alive any more. Neither they nor the caller may hold
/// anything.
template <class Ours, class Mpis>
int run_or_forward(const Arguments& arguments, const Ours& ours, const Mpis& mpis) {
  static_assert(std::is_trivially_destructible_v<Ours> && std::is_trivially_destructible_v<Mpis>);
  bool done = false;
  const int code = guarded(arguments.comm, arguments.function, [&] {
    done = ours();
    return MPI_SUCCESS;
  });
  return code != MPI_SUCCESS || done ? code : mpis();
}

/// Carries out a blocking call and returns its MPI code.
int run_blocking(const Arguments& arguments);

}  // namespace tapa
