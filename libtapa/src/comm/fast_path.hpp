/// @file
/// The shortest way for the commonest calls: blocking all-to-alls among ranks that share memory. At a few
/// hundred nanoseconds a call, an operation's bookkeeping would cost as much as the exchange.
#pragma once

#include <cstdint>

#include "comm/comm_state.hpp"
#include "comm/operation.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// What has become of a call.
enum class Fast : std::uint8_t {
  done,
  no,      ///< nothing was done: an Operation does it, which works together with fast calls of other ranks
  mpis,    ///< MPI is to carry it out: see `left`
  differ,  ///< the two ends of some block differ, as all ranks know: an Operation finds out which
};

/// Throws TransportError. Precondition: checked arguments.
[[nodiscard]] Fast run_fast(const Arguments& arguments, CommState& state, LeftToMpi& left);

/// The same for a call that differs from one of this thread's last ones in its buffers at most: nothing else
/// of its arguments has to be looked at, nor need they be checked. `state`: where it is not `no`.
[[nodiscard]] Fast run_again(const Arguments& arguments, LeftToMpi& left, CommState*& state);

}  // namespace tapa
