/// @file
/// How sparse exchanges are carried out: through memory that all ranks share, else by messages.
#pragma once

#include "comm/comm_state.hpp"

namespace tapa {

/// Carries out a communicator's exchange, with the messages added to it. Throws CallError, TransportError.
void run_sparse(const char* function, CommState& state);

}  // namespace tapa
