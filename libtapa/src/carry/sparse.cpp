#include "carry/sparse.hpp"

#include <sched.h>

#include <optional>

#include "run/progress.hpp"
#include "run/unfinished.hpp"

namespace tapa {

namespace {

/// Alike on all ranks.
bool goes_through_memory(CommState& state) {
  const Rules& rules = state.rules();
  return !rules.mpi_is_forced && rules.topology->nodes() == 1 && state.parts()->regions.available();
}

/// The memory of a communicator's exchanges, when all earlier calls have begun and none uses it any more.
class Claim {
 public:
  Claim(CommState& state, Watch& watch) : buffers_(&wait(state, watch)) {}
  ~Claim() { buffers_->release(); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  [[nodiscard]] ShmBuffers& buffers() const { return *buffers_; }

 private:
  static ShmBuffers& wait(CommState& state, Watch& watch) {
    for (;;) {
      {
        const auto parts = state.parts();
        if (parts->order.idle() && parts->regions.common().claim()) return parts->regions.common();
      }
      Progress::relay();
      state.waiter().drive_mpi();
      watch.look([] { return std::string("waits for an earlier call of this communicator"); });
      sched_yield();
    }
  }

  ShmBuffers* buffers_;
};

void finish(SparseExchange& exchange, Waiter waiter, bool by_memory, Watch& watch) {
  constexpr int watch_every = 256;
  static_assert(watch_every % Progress::relay_every == 0);
  const auto done = [&] { return exchange.advance(); };
  for (int idle = 0; !done(); ++idle) {
    waiter.pause(idle, by_memory, done);
    if (by_memory) waiter.count_quiet_poll();
    if (idle % Progress::relay_every != Progress::relay_every - 1) continue;
    Progress::relay();
    if (idle % watch_every == watch_every - 1) watch.look([&] { return exchange.waits_for(); });
  }
}

}  // namespace

void run_sparse(const char* function, CommState& state) {
  const Rules& rules = state.rules();
  SparseExchange& exchange = state.sparse_exchange();
  const std::size_t bytes = exchange.bytes_sent();
  const double began = rules.report != Reporting::off ? PMPI_Wtime() : 0;
  const bool by_memory = goes_through_memory(state);
  Watch watch(function, rules.timeout);
  if (by_memory) {
    const Claim claim(state, watch);
    exchange.begin(claim.buffers());
    finish(exchange, state.waiter(), true, watch);
  } else {
    const int tag = state.parts()->order.sparse_tag();
    exchange.begin(state.space(), tag);
    finish(exchange, state.waiter(), false, watch);
  }
  if (rules.report == Reporting::off) return;
  state.parts()->report.count(function, bytes / static_cast<std::size_t>(state.size()),
                              by_memory ? "memory" : "nbx", {}, bytes, PMPI_Wtime() - began, std::nullopt);
}

}  // namespace tapa
