/// The "local" exchange: ranks are threads of one process. For tests and for use without MPI.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dit/exchange.h"
#include "exchange/exchange.hpp"

namespace dit {

/// Entry of the linked-in plugin.
extern "C" const dit_exchange_plugin* dit_exchange_local_plugin_v1(uint32_t wanted);

/// How threads meet. `ranks_per_node` > 0 makes levels "node" and "world" (rank / ranks_per_node is its
/// node), so that what depends on levels can be tested in one process; 0: one level.
struct LocalGroupOptions {
  int ranks = 1;
  int ranks_per_node = 0;
  double bytes_per_second =
      0;  ///< > 0: messages that leave a node take their time, a rate per node (for demonstrations)
};

/// Runs body(context) in `ranks` threads, each with its own context, and joins them. The first exception of a
/// rank is rethrown, with "rank N: " before it when there are several; the other ranks' waits end with an
/// error, so nothing hangs.
void run_local_ranks(const LocalGroupOptions& options, const std::function<void(ExchangeContext&)>& body);

}  // namespace dit
