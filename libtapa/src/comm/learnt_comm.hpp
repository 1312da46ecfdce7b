/// @file
/// What a communicator takes over from others of its shape, in this process or in earlier runs, and what it
/// leaves them.
#pragma once

#include <string>

#include "comm/comm_state.hpp"

namespace tapa {

/// To begin with; all ranks have the same text, rank 0's, and the same topology. Throws
/// std::invalid_argument.
void recall_learnt(const std::string& text, CommParts& parts);

/// Notes what a communicator has found, on its rank 0. Once, before it or MPI ends.
void keep_learnt(CommState& state) noexcept;

}  // namespace tapa
