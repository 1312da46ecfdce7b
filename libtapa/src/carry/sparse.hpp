/// @file
/// How sparse exchanges are carried out: through memory that all ranks share, else by messages.
#pragma once

#include "comm/comm_state.hpp"

namespace tapa {

/// Carries out the exchange of a communicator, to which its messages were added, in the order of calls.
/// `function` names the entry point. Throws CallError, TransportError.
void run_sparse(const char* function, CommState& state);

}  // namespace tapa
