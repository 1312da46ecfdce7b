#include "api/entry.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "api/check_arguments.hpp"
#include "api/device_buffers.hpp"
#include "api/forward.hpp"
#include "api/forwarded.hpp"
#include "api/passing.hpp"
#include "comm/fast_path.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "world/guest.hpp"
#include "world/process_options.hpp"

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

CommState* state_for_blocking(MPI_Comm comm, bool alone) {
  CommState* state = CommState::cached(comm);
  if (state == nullptr) {
    if (is_mpis_own(comm)) return nullptr;
    state = CommState::of(comm).get();
  }
  if (state->size() == 1 && !alone) {
    if (is_guest()) static_cast<void>(state->welcome(comm, false));  // so it is remembered
    return nullptr;
  }
  if (!state->ready()) {
    if (is_guest() && !state->welcome(comm, alone)) return nullptr;
    state->set_up(comm);
  }
  if (state->gpus_are_open()) state->ask_for_gpus(comm);
  return state;
}

// MPI checks the arguments of a program that knows nothing of us.
void check_before_mpi(const Arguments& arguments) {
  if (is_guest() || own_check() == Check::off) return;
  check_arguments(arguments, peers_of(arguments.comm), own_check() != Check::mpi);
}

namespace {

/// `judges`: only to find the block whose two ends differ.
bool run_operation(const Arguments& arguments, CommState& state, bool judges, LeftToMpi& left) {
  auto operation = acquire_operation();
  operation->begin(state.shared_from_this(), Mode::blocking, arguments.function, arguments.comm);
  operation->take_arguments(arguments);
  if (judges) operation->judge();
  return run_to_end(std::move(operation), left);
}

/// Carries out a checked call on host memory; false: MPI is to, see `left`.
bool run_on_host(const Arguments& arguments, CommState& state, LeftToMpi& left) {
  const Fast fast = run_fast(arguments, state, left);
  if (fast == Fast::done || fast == Fast::mpis) return fast == Fast::done;
  return run_operation(arguments, state, fast == Fast::differ, left);
}

/// Where MPI is to, it gets other copies: its error handler may not return, so these may not be alive then.
bool run_staged(const Arguments& arguments, CommState& state, LeftToMpi& left) {
  StagedCall staged(arguments, state.size(), *cuda_driver());
  staged.fetch();
  if (!run_on_host(staged.arguments(), state, left)) {
    left.staged = true;
    return false;
  }
  staged.put_back();
  return true;
}

/// A call whose arguments are right, the way that its buffers want. False: it is MPI's, as it was made unless
/// `left` says otherwise.
bool run_checked(const Arguments& arguments, CommState& state, LeftToMpi& left) {
  switch (way_of_call(arguments, state)) {
    case CallWay::host:
      return run_on_host(arguments, state, left);
    case CallWay::engine:
      run_on_device(arguments, state);
      return true;
    case CallWay::stage:
      return run_staged(arguments, state, left);
    default:
      return false;
  }
}

/// A call like one of the last ones; false: it is not, or MPI is to carry it out, see `left`.
bool run_like_before(const Arguments& arguments, LeftToMpi& left) {
  CommState* state = nullptr;
  const Fast fast = run_again(arguments, left, state);
  if (fast == Fast::differ) static_cast<void>(run_operation(arguments, *state, true, left));
  return fast == Fast::done;
}

/// How MPI gets a call whose communicator's state is `state`; null: the ranks have not agreed that MPI gets
/// it as it was made.
HandOver hand_over(const Arguments& arguments, const CommState* state) {
  const bool foreign = CommState::cached(arguments.comm) == nullptr && is_mpis_own(arguments.comm);
  if (!foreign) check_before_mpi(arguments);
  if (state == nullptr && wants_staging(arguments)) return HandOver::staged;
  return !foreign && wants_bytes(arguments) ? HandOver::bytes : HandOver::as_made;
}

/// The same for a call that the ranks have chosen MPI for.
HandOver hand_over(const Arguments& arguments, const LeftToMpi& left) {
  if (left.staged) return HandOver::staged;
  return !left.as_made && wants_bytes(arguments) ? HandOver::bytes : HandOver::as_made;
}

/// Nothing of ours is alive meanwhile.
int forward_left(const Arguments& arguments, HandOver how, const LeftToMpi& left) {
  if (!left.noted) return forward_blocking(arguments, how);
  const std::uint64_t freed = freed_communicators.load(std::memory_order_acquire);
  const double began = PMPI_Wtime();
  const int code = forward_blocking(arguments, how);
  const double seconds = PMPI_Wtime() - began;
  if (code != MPI_SUCCESS) {  // the text of the error stays
    // An error handler may have freed the communicator.
    if (freed != freed_communicators.load(std::memory_order_acquire)) return code;
    try {
      note_mpis(left, arguments.function, seconds);
    } catch (const std::exception&) {
    }
    return code;
  }
  return contained(arguments.function, [&] {
    note_mpis(left, arguments.function, seconds);
    return MPI_SUCCESS;
  });
}

}  // namespace

int run_blocking(const Arguments& arguments) {
  ForwardedCall counted(arguments);
  HandOver how = HandOver::as_made;
  LeftToMpi left;
  const auto ours = [&] {
    if (run_like_before(arguments, left)) return true;
    if (left.state == nullptr) {
      require_comm(arguments.comm);
      CommState* const state = state_for_blocking(arguments.comm, false);
      if (state == nullptr || state->is_mpis()) {
        if (counted.wanted()) counted.forwarded(reason_for_blocking(arguments.comm, state));
        how = hand_over(arguments, state);
        CommState* const known = CommState::cached(arguments.comm);
        if (how == HandOver::as_made && known != nullptr) remember_passing(arguments, *known);
        return false;
      }
      check_call(arguments, *state);
      if (run_checked(arguments, *state, left)) return true;
    }
    if (left.state == nullptr) {
      counted.forwarded(reasons::device);
    } else {
      how = hand_over(arguments, left);
    }
    return false;
  };
  return counted.end(run_or_forward(arguments, ours, [&] { return forward_left(arguments, how, left); }));
}

}  // namespace tapa
