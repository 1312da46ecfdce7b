/// @file
/// How states hang on communicators, as attributes, and how they end.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace tapa {

class CommState;

/// The state that hangs on `comm`, or null. Local.
[[nodiscard]] std::shared_ptr<CommState> find_state(MPI_Comm comm);
/// The same; makes it when there is none, without messages to other ranks.
[[nodiscard]] std::shared_ptr<CommState> state_of(MPI_Comm comm);
/// The same before CommState::set_up(), in which the other ranks learn of it where this one has no memory.
[[nodiscard]] std::shared_ptr<CommState> state_to_set_up(MPI_Comm comm);
/// It is about to be set up.
void enlist(const std::shared_ptr<CommState>& state);

/// Of the states that were set up, in that order, the next one that lives; null behind the last one. `at`: 0
/// at first. Asks for no memory.
[[nodiscard]] std::shared_ptr<CommState> next_state(std::size_t& at);

/// MPI_Finalize has begun: prints the report, ends what is under way, frees what the states keep. Once.
void end_states() noexcept;

}  // namespace tapa
