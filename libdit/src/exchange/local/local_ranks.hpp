/// The "local" exchange: ranks are threads of one process. For tests and for use without MPI.
///
/// How bytes move: start publishes a rank's buffers; of two ranks, the one that starts an exchange later
/// copies what the two have for each other, both ways. So once all ranks have started an exchange its data is
/// in place, without a progress thread and without further calls, and wait only waits for ranks that have not
/// started yet. A rank's wait also ends only when its peers have their copies of its data.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dit/exchange.h"
#include "exchange/exchange.hpp"

namespace dit {

class LocalGroup;

/// Entry of the linked-in plugin.
extern "C" const dit_exchange_plugin* dit_exchange_local_plugin_v1(uint32_t wanted);

/// How threads meet. `ranks_per_node` > 0 makes levels "node" and "world" (rank / ranks_per_node is its
/// node), so that what depends on levels can be tested in one process; 0: one level.
struct LocalGroupOptions {
  int ranks = 1;
  int ranks_per_node = 0;
  double bytes_per_second = 0;  ///< > 0: messages that leave a node take their time: each node has a NIC of
                                ///< this rate, in each direction (for demonstrations). Needs ranks_per_node
  double timeout_seconds = 0;   ///< a wait that takes longer fails with DIT_ERROR_TIMEOUT; 0: never
};

/// Runs body(context) in `ranks` threads, each with its own context, and joins them. The first exception of a
/// rank, in time, is rethrown as it is; the other ranks' waits end with an error that names the rank and its
/// words, so that nothing hangs. One rank runs in the caller's own thread.
void run_local_ranks(const LocalGroupOptions& options, const std::function<void(ExchangeContext&)>& body);

}  // namespace dit

/// What dit_open_options::communicator points to: one rank of a group, opened by the thread that will use it.
/// Without one (null) open gives a context of one rank.
// NOLINTNEXTLINE(readability-identifier-naming): a name of the plugins' C interface
struct dit_local_member {
  std::shared_ptr<dit::LocalGroup> group;
  int rank = 0;
};

namespace dit {

/// The members of a new group, one for each rank; for threads that are not run_local_ranks' own. Every member
/// must be opened. Throws ExchangeError for options that make no sense.
[[nodiscard]] std::vector<dit_local_member> make_local_group(const LocalGroupOptions& options);

}  // namespace dit
