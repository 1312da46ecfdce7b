/// @file
/// What all entry points have in common: a call is checked, gets its route, and is carried out.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// The state of an intracommunicator, set up. Collective. Throws CallError.
[[nodiscard]] std::shared_ptr<CommState> ready_state(MPI_Comm comm);

/// Carries out, starts, or makes a persistent request of, a call, which is collective; returns its MPI code.
/// By mode at compile time, as a short call notices each branch.
template <Mode mode>
int run(const Arguments& arguments, MPI_Request* request = nullptr);

}  // namespace tapa
