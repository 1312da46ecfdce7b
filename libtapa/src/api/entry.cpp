#include "api/entry.hpp"

#include <type_traits>
#include <utility>

#include "carry/carriers.hpp"
#include "comm/call_notes.hpp"
#include "comm/device_calls.hpp"
#include "comm/registry.hpp"
#include "route/decide.hpp"
#include "run/device_memory.hpp"
#include "run/staged_call.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

/// In the order of calls. `judges`: only to find the block whose two ends differ.
std::unique_ptr<Operation> begin(const Arguments& arguments, CommState& state, Mode mode,
                                 bool judges = false) {
  const bool sampled = mode == Mode::blocking && !arguments.neighbours;
  auto operation = begin_operation(state.shared_from_this(), mode, arguments.function,
                                   sampled ? arguments.comm : MPI_COMM_NULL);
  operation->take_arguments(arguments, judges);
  return operation;
}

void run_on_device(const Arguments& arguments, CommState& state) {
  const double began = PMPI_Wtime();
  DeviceCalls& calls = *state.device_calls();
  calls.run(arguments);
  if (state.rules().report == Reporting::off) return;
  const double seconds = PMPI_Wtime() - began;
  {
    const auto parts = state.parts();
    note_traffic(calls, arguments.form == Form::uniform, parts->traffic);
    parts->report.next_blocking();
  }
  note_call(state, arguments.function, "device", calls.bytes_sent(), seconds);
}

bool carry(const Arguments& arguments, Route& route);

/// MPI gets other copies: its error handler may not return, so these may not be alive then.
bool run_staged(const Arguments& arguments, Route& route) {
  StagedCall staged(arguments, route.state->size, *cuda_driver());
  staged.fetch();
  route = claim(staged.arguments(), *route.state);
  if (!carry(staged.arguments(), route)) {
    route.how = HandOver::staged;
    return false;
  }
  staged.put_back();
  return true;
}

/// Starts a checked nonblocking call, or makes a persistent request. False: it is MPI's.
template <Mode mode>
bool make_request(const Arguments& arguments, Route& route, MPI_Request* request) {
  CommState& state = *route.state;
  auto staged = staged_call(arguments, state);
  if (mode == Mode::nonblocking) {
    if (!staged) route = claim_later(arguments, state);
    if (route.carrier == Carrier::memory) return start_at_once(arguments, route, request), true;
    if (staged) staged->fetch();
  }
  auto operation = begin(staged ? staged->arguments() : arguments, state, mode);
  if (submit_operation(std::move(operation), nullptr, arguments.comm, request, std::move(staged)))
    return true;
  route = left_to_mpi(reasons::tags);
  return false;
}

/// Carries out a checked blocking call; false: it is MPI's, and nothing was done.
bool carry(const Arguments& arguments, Route& route) {
  switch (route.carrier) {
    case Carrier::memory:
      if (run_at_once(arguments, route)) return true;
      return route.carrier == Carrier::plan &&
             run_to_end(begin(arguments, *route.state, Mode::blocking, true), route);
    case Carrier::device:
      run_on_device(arguments, *route.state);
      return true;
    case Carrier::plan:
      return route.how == HandOver::staged
                 ? run_staged(arguments, route)
                 : run_to_end(begin(arguments, *route.state, Mode::blocking), route);
    default:
      return false;
  }
}

void require_own_comm(MPI_Comm comm) {
  require_comm(comm);
  if (!world_began())
    refuse(MPI_ERR_UNSUPPORTED_OPERATION,
           "comm is of a session in a program that did not call MPI_Init, expected one that did");
  if (world_ends()) refuse(MPI_ERR_OTHER, "MPI_Finalize has begun, expected a call before it");
  if (is_intercomm(comm)) refuse(MPI_ERR_COMM, "comm is an intercommunicator, expected an intracommunicator");
}

}  // namespace

std::shared_ptr<CommState> ready_state(MPI_Comm comm) {
  require_own_comm(comm);
  auto state = state_to_set_up(comm);
  state->set_up();
  return state;
}

/// Nothing may be alive here that needs a destructor while MPI carries a call out.
template <Mode mode>
int run(const Arguments& arguments, MPI_Request* request) {
  static_assert(std::is_trivially_destructible_v<Route>);
  Route route;
  bool done = false;
  const int code = guarded(arguments.comm, arguments.function, [&] {
    if constexpr (mode != Mode::blocking) require_request(request);
    if (mode != Mode::blocking || !decide_like_before(arguments, route)) route = decide<mode>(arguments);
    if constexpr (mode == Mode::blocking)
      done = carry(arguments, route);
    else
      done = route.carrier != Carrier::mpi && make_request<mode>(arguments, route, request);
    if (!done) hand_over(arguments, mode, route);
  });
  return code != MPI_SUCCESS || done ? code : run_by_mpi(arguments, route, mode, request);
}
template int run<Mode::blocking>(const Arguments&, MPI_Request*);
template int run<Mode::nonblocking>(const Arguments&, MPI_Request*);
template int run<Mode::persistent>(const Arguments&, MPI_Request*);

}  // namespace tapa
