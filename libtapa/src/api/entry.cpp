#include "api/entry.hpp"

#include <optional>
#include <type_traits>
#include <utility>

#include "carry/memory.hpp"
#include "carry/mpi.hpp"
#include "carry/operation_pool.hpp"
#include "carry/requests.hpp"
#include "comm/call_notes.hpp"
#include "comm/registry.hpp"
#include "route/decide.hpp"
#include "route/recall.hpp"
#include "run/device_memory.hpp"
#include "run/staged_call.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

/// Runs a call and returns its code: `ours` carries it out, or returns false, having done nothing; then
/// `mpis` hands it to MPI, when nothing of `ours` is alive any more. Neither they nor the caller may hold
/// anything.
template <class Ours, class Mpis>
int run_or_forward(const Arguments& arguments, const Ours& ours, const Mpis& mpis) {
  static_assert(std::is_trivially_destructible_v<Ours> && std::is_trivially_destructible_v<Mpis> &&
                std::is_trivially_destructible_v<Route>);
  bool done = false;
  const int code = guarded(arguments.comm, arguments.function, [&] {
    done = ours();
    return MPI_SUCCESS;
  });
  return code != MPI_SUCCESS || done ? code : mpis();
}

std::unique_ptr<Operation> begin(const Arguments& arguments, CommState& state, Mode mode,
                                 bool judges = false) {
  auto operation = acquire_operation();
  operation->begin(state.shared_from_this(), mode, arguments.function,
                   mode == Mode::blocking && !arguments.neighbours ? arguments.comm : MPI_COMM_NULL);
  operation->take_arguments(arguments, judges);
  return operation;
}

/// In the order of calls. `judges`: only to find the block whose two ends differ. False: it is MPI's.
bool run_in_order(const Arguments& arguments, Route& route, bool judges) {
  return run_to_end(begin(arguments, *route.state, Mode::blocking, judges), route);
}

void run_on_device(const Arguments& arguments, CommState& state) {
  const double began = PMPI_Wtime();
  DeviceCalls& calls = *state.device_calls();
  calls.run(arguments);
  if (state.rules().report == Reporting::off) return;
  const double seconds = PMPI_Wtime() - began;
  const std::size_t bytes = calls.bytes_sent();
  if (arguments.form != Form::uniform) note_traffic(arguments, state.size(), state);
  const auto parts = state.parts();
  parts->report.next_blocking();
  parts->report.count(arguments.function, bytes / static_cast<std::size_t>(state.size()), "device", {}, bytes,
                      seconds, std::nullopt);
}

bool carry(const Arguments& arguments, Route& route);

/// Where MPI is to carry it out, it gets other copies: its error handler may not return, so these may not be
/// alive then.
bool run_staged(const Arguments& arguments, Route& route) {
  StagedCall staged(arguments, route.state->size(), *cuda_driver());
  staged.fetch();
  route = claim(staged.arguments(), *route.state);
  if (!carry(staged.arguments(), route)) {
    route.how = HandOver::staged;
    return false;
  }
  staged.put_back();
  return true;
}

/// False: it is MPI's.
bool run_through_memory(const Arguments& arguments, Route& route) {
  switch (run_at_once(arguments, route)) {
    case MemoryEnd::done:
      return true;
    case MemoryEnd::sizes_differ:
      return run_in_order(arguments, route, true);
    default:
      route.carrier = Carrier::mpi;
      route.reason = reasons::memory;
      route.chosen = true;
      route.tried = false;
      return false;
  }
}

/// Carries out a checked call; false: it is MPI's, and nothing was done.
bool carry(const Arguments& arguments, Route& route) {
  switch (route.carrier) {
    case Carrier::memory:
      return run_through_memory(arguments, route);
    case Carrier::device:
      run_on_device(arguments, *route.state);
      return true;
    case Carrier::plan:
      return route.how == HandOver::staged ? run_staged(arguments, route)
                                           : run_in_order(arguments, route, false);
    default:
      return false;
  }
}

/// The route of a blocking call, whose arguments are right unless it is MPI's.
Route find_route(const Arguments& arguments) {
  Route route;
  if (!arguments.neighbours && decide_like_before(arguments, route)) return route;
  route = decide_comm(arguments, false);
  return route.carrier == Carrier::mpi ? route : decide_blocking(arguments, *route.state);
}

/// A checked nonblocking call that is not MPI's.
void start(const Arguments& arguments, Route& route, MPI_Request* request) {
  CommState& state = *route.state;
  auto staged = staged_call(arguments, state);
  if (!staged) route = claim_later(arguments, state);
  if (route.carrier == Carrier::memory) return start_at_once(arguments, route, request);
  if (staged) staged->fetch();
  auto operation = begin(staged ? staged->arguments() : arguments, state, Mode::nonblocking);
  submit_operation(std::move(operation), nullptr, request, std::move(staged));
}

void require_own_comm(MPI_Comm comm) {
  require_comm(comm);
  if (!world_began()) {
    throw CallError(MPI_ERR_UNSUPPORTED_OPERATION,
                    "comm is of a session in a program that did not call MPI_Init, expected one that did");
  }
  if (world_ends()) throw CallError(MPI_ERR_OTHER, "MPI_Finalize has begun, expected a call before it");
  if (is_intercomm(comm))
    throw CallError(MPI_ERR_COMM, "comm is an intercommunicator, expected an intracommunicator");
}

}  // namespace

std::shared_ptr<CommState> ready_state(MPI_Comm comm) {
  require_own_comm(comm);
  auto state = state_of(comm);
  state->set_up(comm);
  return state;
}

int run_blocking(const Arguments& arguments) {
  Route route;
  const auto ours = [&] {
    route = find_route(arguments);
    if (carry(arguments, route)) return true;
    const bool agreed = route.state != nullptr && !route.chosen && !route.state->rules().is_mpis;
    if (!agreed) route.how = hand_over(arguments, route);
    if (!route.chosen && !arguments.neighbours && route.how == HandOver::as_made)
      remember_forwarded(arguments);
    return false;
  };
  return run_or_forward(arguments, ours, [&] { return run_by_mpi(arguments, route); });
}

int run_nonblocking(const Arguments& arguments, MPI_Request* request) {
  Route route;
  const auto ours = [&] {
    require_request(request);
    route = decide_nonblocking(arguments);
    if (route.carrier == Carrier::mpi) {
      if (route.reason != reasons::foreign) check_before_mpi(arguments);
      return false;
    }
    start(arguments, route, request);
    return true;
  };
  return run_or_forward(arguments, ours, [&] { return start_by_mpi(arguments, route, request); });
}

int run_init(const Arguments& arguments, MPI_Request* request) {
  Route route;
  const auto ours = [&] {
    require_request(request);
    route = decide_persistent(arguments);
    if (route.carrier == Carrier::mpi) {
      if (route.reason != reasons::foreign) check_before_mpi(arguments);
      return false;
    }
    auto staged = staged_call(arguments, *route.state);
    auto operation = begin(staged ? staged->arguments() : arguments, *route.state, Mode::persistent);
    if (prepare_operation(std::move(operation), nullptr, arguments.comm, request, std::move(staged)))
      return true;
    route = {};
    route.reason = reasons::tags;
    return false;
  };
  return run_or_forward(arguments, ours, [&] { return init_by_mpi(arguments, route, request); });
}

int run_neighbours(Arguments arguments, Mode mode, MPI_Request* request) {
  arguments.neighbours = true;
  const int code = guarded(arguments.comm, arguments.function, [&] {
    arguments.edges = edges_at(arguments.comm, mode != Mode::blocking);
    return MPI_SUCCESS;
  });
  if (code != MPI_SUCCESS) return code;
  if (mode == Mode::blocking) return run_blocking(arguments);
  return mode == Mode::nonblocking ? run_nonblocking(arguments, request) : run_init(arguments, request);
}

}  // namespace tapa
