/// @file
/// How a thread waits for an exchange that is carried out at once.
#pragma once

#include <mpi.h>

#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/unfinished.hpp"
#include "transport/waiter.hpp"

namespace tapa {

/// Advances `exchange` until it says so. `by_memory`: MPI has no part in it. `waits_for` says whom it waits
/// for. What others wait for goes on meanwhile.
template <class Exchange, class WaitsFor>
void poll_to_end(Exchange& exchange, bool by_memory, Waiter waiter, Watch watch, const WaitsFor& waits_for) {
  constexpr int watch_every = 256;
  static_assert(watch_every % Progress::relay_every == 0);
  const auto done = [&] { return exchange.advance(); };
  for (int idle = 0; !done(); ++idle) {
    waiter.pause(idle, by_memory, done);
    if (by_memory) waiter.count_quiet_poll();
    if (idle % Progress::relay_every != Progress::relay_every - 1) continue;
    Progress::relay();
    if (idle % watch_every == watch_every - 1) watch.look(waits_for);
  }
}

/// A nonblocking collective call of MPI's under way, for poll_to_end(). Throws CallError.
struct PendingCollective {
  MPI_Request request = MPI_REQUEST_NULL;
  const char* function;  ///< MPI's

  [[nodiscard]] bool advance() {
    int complete = 0;
    check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), function);
    return complete != 0;
  }
};

}  // namespace tapa
