#include "carry/sparse.hpp"

#include <sched.h>

#include <memory>
#include <optional>

#include "comm/call_notes.hpp"
#include "run/poll_to_end.hpp"

namespace tapa {

namespace {

/// Alike on all ranks.
bool goes_through_memory(CommState& state) {
  const Rules& rules = state.rules();
  return !rules.mpi_is_forced && rules.topology->nodes() == 1 && state.parts()->regions.available();
}

struct Release {
  void operator()(ShmBuffers* buffers) const { buffers->release(); }
};

/// The memory of a communicator's exchanges, when all earlier calls have begun and none uses it any more.
std::unique_ptr<ShmBuffers, Release> claim(CommState& state, Watch& watch) {
  for (;;) {
    {
      const auto parts = state.parts();
      ShmBuffers& common = parts->regions.common();
      if (parts->order.idle() && common.claim()) return std::unique_ptr<ShmBuffers, Release>(&common);
    }
    Progress::relay();
    state.waiter().drive_mpi();
    watch.look([] { return std::string("waits for an earlier call of this communicator"); });
    sched_yield();
  }
}

}  // namespace

void run_sparse(const char* function, CommState& state) {
  const Rules& rules = state.rules();
  SparseExchange& exchange = state.sparse_exchange();
  const std::size_t bytes = exchange.bytes_sent();
  const double began = rules.report != Reporting::off ? PMPI_Wtime() : 0;
  if (rules.report != Reporting::off) note_traffic(exchange.messages(), state.parts()->traffic);
  const bool by_memory = goes_through_memory(state);
  Watch watch(function, rules.timeout);
  const auto finish = [&] {
    poll_to_end(exchange, by_memory, state.waiter(), watch, [&] { return exchange.waits_for(); });
  };
  if (by_memory) {
    const auto buffers = claim(state, watch);
    exchange.begin(*buffers);
    finish();
  } else {
    const int tag = state.parts()->order.sparse_tag();
    exchange.begin(state.space(), tag);
    finish();
  }
  if (rules.report == Reporting::off) return;
  state.parts()->report.count(function, bytes / static_cast<std::size_t>(state.size()),
                              by_memory ? "memory" : "messages", {}, bytes, PMPI_Wtime() - began,
                              std::nullopt);
}

}  // namespace tapa
