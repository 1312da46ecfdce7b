#include "api/entry.hpp"

#include <optional>
#include <string>
#include <utility>

#include "api/check_arguments.hpp"
#include "api/device_buffers.hpp"
#include "api/forward.hpp"
#include "api/forwarded.hpp"
#include "api/passing.hpp"
#include "api/timed.hpp"
#include "comm/duplications.hpp"
#include "comm/fast_path.hpp"
#include "comm/guest.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"

namespace tapa {

void require_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) throw CallError(MPI_ERR_COMM, "comm is MPI_COMM_NULL, expected a communicator");
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

bool is_intercomm(MPI_Comm comm) {
  int inter = 0;
  check_mpi(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  return inter != 0;
}

int peers_of(MPI_Comm comm) {
  int size = 0;
  if (is_intercomm(comm)) {
    check_mpi(PMPI_Comm_remote_size(comm, &size), "MPI_Comm_remote_size");
  } else {
    check_mpi(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
  }
  return size;
}

void check_call(const Arguments& arguments, CommState& state) {
  const Check check = state.check();
  if (check != Check::off) check_arguments(arguments, state.size(), check != Check::mpi);
}

std::shared_ptr<CommState> ready_state(MPI_Comm comm) {
  require_own_comm(comm);
  auto state = CommState::of(comm);
  state->set_up(comm);
  return state;
}

std::optional<std::size_t> uniform_bytes(const Arguments& arguments) {
  const Side& side = arguments.recv;
  if (arguments.form != Form::uniform || side.type == MPI_DATATYPE_NULL || side.count < 0)
    return std::nullopt;
  return static_cast<std::size_t>(side.count) * type_info(side.type).size;
}

CommState* state_for_blocking(MPI_Comm comm, const Arguments* call, bool needed) {
  CommState* state = CommState::cached(comm);
  if (state == nullptr) {
    note_in_use(comm);
    if (is_mpis_own(comm) || (call != nullptr && peers_of(comm) == 1)) return nullptr;
    state = CommState::of(comm).get();
  }
  if (state->ready()) return state;
  if (is_guest()) {
    std::optional<std::uint64_t> nanoseconds;
    if (call != nullptr) nanoseconds = Newcomer::estimate(uniform_bytes(*call), state->size());
    return state->welcome(comm, nanoseconds, needed) ? state : nullptr;
  }
  state->set_up(comm);
  return state;
}

// MPI checks the arguments of a program that knows nothing of us.
void check_before_mpi(const Arguments& arguments) {
  if (is_guest() || own_check() == Check::off) return;
  check_arguments(arguments, peers_of(arguments.comm), own_check() != Check::mpi);
}

namespace {

/// Rank 0 counts what MPI takes for a blocking call on a communicator, in its state, where nothing is set up:
/// whichever way the call is handed over, it is one.
class CountedForNewcomer {
 public:
  explicit CountedForNewcomer(MPI_Comm comm) : comm_(comm) {}

  template <class HandOver>
  auto operator()(const HandOver& hand_over) {
    CommState* const state = CommState::cached(comm_);
    if (state == nullptr) return hand_over();
    if (!weight_) weight_ = state->newcomer_weight();
    return timed(*state, *weight_, hand_over);
  }

 private:
  MPI_Comm comm_;
  std::optional<unsigned> weight_;  // drawn once
};

/// Carries out a checked call on host memory.
void run_on_host(const Arguments& arguments, CommState& state) {
  if (run_fast(arguments, state)) return;
  auto operation = acquire_operation();
  operation->begin(state.shared_from_this(), Mode::blocking, arguments.function);
  operation->take_arguments(arguments);
  run_to_end(std::move(operation));
}

void run_staged(const Arguments& arguments, CommState& state) {
  StagedCall staged(arguments, state.size(), *cuda_driver());
  staged.fetch();
  run_on_host(staged.arguments(), state);
  staged.put_back();
}

/// A call whose arguments are right, the way that its buffers want. False: it is MPI's as it was made.
bool run_checked(const Arguments& arguments, CommState& state) {
  switch (way_of_call(arguments, state)) {
    case CallWay::host:
      run_on_host(arguments, state);
      return true;
    case CallWay::engine:
      run_on_device(arguments, state);
      return true;
    case CallWay::stage:
      run_staged(arguments, state);
      return true;
    default:
      return false;
  }
}

/// How MPI gets a call whose communicator's state is `state`; null: the ranks have not agreed that MPI gets
/// it as it was made.
HandOver hand_over(const Arguments& arguments, const CommState* state) {
  const bool foreign = CommState::cached(arguments.comm) == nullptr && is_mpis_own(arguments.comm);
  if (!foreign) check_before_mpi(arguments);
  if (state == nullptr && wants_staging(arguments)) return HandOver::staged;
  return !foreign && wants_bytes(arguments) ? HandOver::bytes : HandOver::as_made;
}

}  // namespace

int run_blocking(const Arguments& arguments) {
  ForwardedCall counted(arguments);
  CountedForNewcomer timed_for_newcomer(arguments.comm);
  HandOver how = HandOver::as_made;
  const auto ours = [&] {
    if (run_again(arguments)) return true;
    require_comm(arguments.comm);
    CommState* const state = state_for_blocking(arguments.comm, &arguments);
    if (state == nullptr || state->is_mpis()) {
      if (counted.wanted()) counted.forwarded(reason_for_blocking(arguments.comm, state));
      how = hand_over(arguments, state);
      CommState* const newcomer = CommState::cached(arguments.comm);
      if (how == HandOver::as_made && newcomer != nullptr && !newcomer->ready())
        remember_passing(arguments, *newcomer);
      return false;
    }
    check_call(arguments, *state);
    const bool done = run_checked(arguments, *state);
    if (!done) counted.forwarded(reasons::device);
    return done;
  };
  return counted.end(run_or_forward(
      arguments, ours, [&] { return timed_for_newcomer([&] { return forward_blocking(arguments, how); }); }));
}

}  // namespace tapa
