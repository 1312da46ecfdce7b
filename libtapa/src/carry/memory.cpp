#include <exception>
#include <string>
#include <utility>

#include "carry/carriers.hpp"
#include "comm/call_notes.hpp"
#include "run/log.hpp"
#include "run/poll_to_end.hpp"
#include "transport/transport.hpp"

namespace tapa {

namespace {

/// Ends what a claim has begun, also when the call has failed: gives the buffers back, and tells the
/// autotuner, the report and the next call with blocks of other sizes.
class Ending {
 public:
  Ending(const Arguments& arguments, const Route& route)
      : arguments_(arguments), route_(route), began_(route.noted ? PMPI_Wtime() : 0) {}
  ~Ending() {
    route_.buffers->release();
    if (!route_.noted && route_.uniform) return;
    CommState& state = *route_.state;
    const double seconds = route_.noted ? PMPI_Wtime() - began_ : 0;
    const bool reported = state.rules().report != Reporting::off;
    if (reported && !route_.uniform) {
      note_time(state, arguments_, seconds);
      note_call(state, arguments_.function, "memory", route_.sent, seconds);
    }
    const auto parts = state.parts();
    if (!route_.uniform) parts->mean.note(state.memory_run.exchange().total_bytes(), state.size);
    if (route_.tried) parts->tuner.record(*route_.tried, seconds, route_.sent);
    if (!reported || !route_.uniform || route_.stands_for == 0) return;
    note_time(state, *parts, 2 * route_.sent, seconds);
    parts->report.add_time(arguments_.function, route_.bytes, "memory",
                           seconds * static_cast<double>(route_.stands_for));
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  const Arguments& arguments_;
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
  run.begin(*route.buffers, arguments, route.state->size,
            !rules.compares() ? MemoryRun::Compare::nothing
            : route.uniform   ? MemoryRun::Compare::sums
                              : MemoryRun::Compare::blocks);
}

/// A nonblocking call under way. On the stack until it is known not to be over at once.
class Later final : public Task {
 public:
  Later(const Arguments& arguments, const Route& route)
      : function_(arguments.function),
        route_(route),
        began_(route.noted ? PMPI_Wtime() : 0),
        watch_(arguments.function, route.state->rules().timeout) {
    run([&] { begin(arguments, route, memory()); });
  }

  /// Looks some times, as what MPI does between two looks takes longer than one; true when it has ended.
  bool look(int times) noexcept {
    for (; times > 0; --times) {
      if (!ended_ && run([&] { ended_ = memory().advance(); }) && !ended_)
        watch_.look([&] { return waits_for(memory().exchange()); });
      if (ended_) break;
      Waiter::relax();
    }
    if (ended_ && route_.buffers != nullptr) end();
    return ended_;
  }
  void keep_state() { keep_ = route_.state->shared_from_this(); }
  bool advance() noexcept override {
    constexpr int kLooks = 8;
    return look(std::exchange(looks_, kLooks));
  }
  [[nodiscard]] int result() const noexcept override { return code_; }
  [[nodiscard]] std::string message() const override { return std::string(function_) + ": " + message_; }

 private:
  [[nodiscard]] MemoryRun& memory() const { return route_.state->memory_run; }

  /// False: it has failed, and with that ended.
  template <class Step>
  bool run(const Step& step) noexcept {
    try {
      step();
      return true;
    } catch (const std::exception&) {
      const Failure failure = current_failure();
      ended_ = true;
      code_ = failure.code;
      keep_words(message_, failure.words);
    }
    return false;
  }
  void end() {
    std::exchange(route_.buffers, nullptr)->release();
    if (code_ != MPI_SUCCESS) log_error(function_, message_.c_str());
    if (route_.noted) note_call(*route_.state, function_, "memory", route_.sent, PMPI_Wtime() - began_);
  }

  std::shared_ptr<CommState> keep_;
  const char* function_;
  Route route_;  // without buffers, once they are given back
  double began_;
  Watch watch_;
  int looks_ = 1;  // of the next advance()
  bool ended_ = false;
  int code_ = MPI_SUCCESS;
  std::string message_;
};

}  // namespace

void start_at_once(const Arguments& arguments, const Route& route, MPI_Request* request) {
  // Where ranks have cores the others are here soon, as a rule, and a request would take longer.
  constexpr int kFirstLooks = 16;
  Later call(arguments, route);
  const bool spins = route.state->rules().waiting == WaitPolicy::spin;
  if (call.look(spins ? kFirstLooks : 1) && call.result() == MPI_SUCCESS)
    return check_mpi(Progress::ended(request), "MPI_Isend");
  call.keep_state();
  submit(std::make_unique<Later>(std::move(call)), request);
}

bool run_at_once(const Arguments& arguments, Route& route) {
  const Rules& rules = route.state->rules();
  MemoryRun& run = route.state->memory_run;
  const ShmExchange& exchange = run.exchange();
  const auto sizes_agree = [&] { return !rules.compares() || exchange.sizes_agree(); };
  bool agree = true;
  bool given_up = false;
  {
    const Ending ending(arguments, route);
    try {
      begin(arguments, route, run);
      poll_to_end(run, true, route.state->waiter(), {arguments.function, rules.timeout},
                  [&] { return waits_for(exchange); });
    } catch (const TransportError&) {
      // Large counts may be more than MPI can be given.
      const bool may_be_mpis = !arguments.neighbours && (arguments.form == Form::uniform || !arguments.large);
      given_up = sizes_agree() && may_be_mpis && exchange.can_be_repeated();
      if (sizes_agree() && !given_up) throw;
    }
    agree = sizes_agree();
  }
  if (agree && !given_up) return true;
  route.carrier = given_up ? Carrier::mpi : Carrier::plan;
  if (given_up) route.reason = reasons::memory;
  route.chosen = given_up;
  route.tried.reset();
  return false;
}

}  // namespace tapa
