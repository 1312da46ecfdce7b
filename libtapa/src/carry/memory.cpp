#include "carry/memory.hpp"

#include <optional>

#include "run/poll_to_end.hpp"
#include "transport/transport.hpp"

namespace tapa {

namespace {

/// Ends what a claim has begun, also when the call has failed: gives the buffers back, tells the autotuner
/// how long a probe took, and the report how long a call did, and what the next call with blocks of other
/// sizes goes by.
class Ending {
 public:
  Ending(const char* function, const Route& route)
      : function_(function), route_(route), began_(route.noted ? PMPI_Wtime() : 0) {}
  ~Ending() {
    route_.buffers->release();
    if (!route_.noted && route_.uniform) return;
    CommState& state = *route_.state;
    const double seconds = route_.noted ? PMPI_Wtime() - began_ : 0;
    const auto parts = state.parts();
    if (!route_.uniform) parts->mean.note(state.memory_run().exchange().total_bytes(), state.size());
    if (route_.tried) parts->tuner.record(route_.key, seconds, route_.sent);
    if (state.rules().report == Reporting::off) return;
    const std::size_t bytes = route_.sent / static_cast<std::size_t>(state.size());
    parts->report.count(function_, bytes, "memory", {}, route_.sent, seconds, std::nullopt);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  const char* function_;
  const Route& route_;
  double began_;
};

void begin(const Arguments& arguments, const Route& route, MemoryRun& run) {
  const Rules& rules = route.state->rules();
  const Uniform& blocks = route.blocks;
  if (blocks.dense) {
    std::byte* const to = address_at(arguments.recv.buffer, blocks.recv_first);
    const std::byte* const from =
        arguments.in_place() ? to : address_at(arguments.send.buffer, blocks.send_first);
    return run.begin_row(*route.buffers, from, to, blocks.bytes);
  }
  run.begin(*route.buffers, arguments, route.state->size(),
            !rules.compares() ? MemoryRun::Compare::nothing
            : route.uniform   ? MemoryRun::Compare::sums
                              : MemoryRun::Compare::blocks);
}

/// Large counts may be more than MPI can be given.
bool may_be_mpis(const Arguments& arguments) {
  return !arguments.neighbours && (arguments.form == Form::uniform || !arguments.large);
}

}  // namespace

MemoryEnd run_at_once(const Arguments& arguments, const Route& route) {
  const Rules& rules = route.state->rules();
  MemoryRun& run = route.state->memory_run();
  const ShmExchange& exchange = run.exchange();
  const Ending ending(arguments.function, route);
  try {
    begin(arguments, route, run);
    poll_to_end(run, true, route.state->waiter(), {arguments.function, rules.timeout},
                [&] { return waits_for(exchange); });
  } catch (const TransportError&) {
    const bool agree = !rules.compares() || exchange.sizes_agree();
    if (agree && may_be_mpis(arguments) && exchange.can_be_repeated()) return MemoryEnd::no_memory;
    if (agree) throw;
  }
  return !rules.compares() || exchange.sizes_agree() ? MemoryEnd::done : MemoryEnd::sizes_differ;
}

}  // namespace tapa
