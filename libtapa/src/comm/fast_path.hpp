/// @file
/// The shortest way for the commonest calls: blocking all-to-alls among ranks that share memory. At a few
/// hundred nanoseconds a call, an operation's bookkeeping would cost as much as the exchange.
#pragma once

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Carries the call out and returns true, or returns false and has done nothing: then an Operation does it,
/// which works together with fast calls of other ranks. Throws TransportError. Precondition: checked
/// arguments.
[[nodiscard]] bool run_fast(const Arguments& arguments, CommState& state);

/// The same for a call that differs from one of this thread's last ones in its buffers at most: nothing else
/// of its arguments has to be looked at, nor need they be checked.
[[nodiscard]] bool run_again(const Arguments& arguments);

}  // namespace tapa
