#include "api/entry.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/check_arguments.hpp"
#include "api/forward.hpp"
#include "comm/fast_path.hpp"
#include "comm/guest.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Operation>> idle;
};

// Never destroyed: MPI may end after static objects do.
Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

/// A GPU may be in use since the communicator was set up. Buffers that were looked at in this thread's last
/// call are not looked at again; null ones stand for addresses.
void check_memory(const Arguments& a, int ranks) {
  struct Buffers {
    const void* send;
    const void* recv;
  };
  thread_local constinit Buffers in_host{};
  const bool known = a.send.buffer == in_host.send && a.recv.buffer == in_host.recv;
  if (known && in_host.send != nullptr && in_host.recv != nullptr) return;
  if (gpu_in_use()) require_host_memory(a, ranks);
  in_host = {a.send.buffer, a.recv.buffer};
}

}  // namespace

void require_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) throw CallError(MPI_ERR_COMM, "comm is MPI_COMM_NULL, expected a communicator");
}

void require_own_comm(MPI_Comm comm) {
  require_comm(comm);
  if (!world_began()) {
    throw CallError(MPI_ERR_UNSUPPORTED_OPERATION,
                    "comm is of a session in a program that did not call MPI_Init, expected one that did");
  }
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
  if (!state.trusts_buffers()) check_memory(arguments, state.size());
}

std::unique_ptr<Operation> acquire_operation() {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (p.idle.empty()) return std::make_unique<Operation>();
  auto operation = std::move(p.idle.back());
  p.idle.pop_back();
  return operation;
}

void release_operation(std::unique_ptr<Operation> operation) {
  operation->end();
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  p.idle.push_back(std::move(operation));
}

void run_to_end(std::unique_ptr<Operation> operation) {
  complete(*operation);
  const int code = operation->code();
  const CallError error(code, operation->message(), operation->seen());
  release_operation(std::move(operation));
  if (code != MPI_SUCCESS) throw error;
}

std::shared_ptr<CommState> ready_state(MPI_Comm comm) {
  require_own_comm(comm);
  auto state = CommState::of(comm);
  state->set_up(comm);
  return state;
}

std::shared_ptr<CommState> state_for_blocking(MPI_Comm comm, bool now) {
  auto state = CommState::find(comm);
  if (!state) state = CommState::of(comm);
  if (state->ready()) return state;
  if (is_guest()) return state->welcome(comm, now) ? state : nullptr;
  state->set_up(comm);
  return state;
}

// MPI checks the arguments of a program that knows nothing of us.
void check_before_mpi(const Arguments& arguments) {
  if (is_guest() || own_check() == Check::off) return;
  check_arguments(arguments, peers_of(arguments.comm), own_check() != Check::mpi);
}

namespace {

/// Blocking, where the library has nothing set up or nothing to gain.
int leave_to_mpi(const Arguments& arguments) {
  const double began = PMPI_Wtime();
  const int code = forward_blocking(arguments);
  note_newcomer(arguments.comm, PMPI_Wtime() - began);
  return code;
}

}  // namespace

int run_blocking(const Arguments& arguments) {
  const auto ours = [&] {
    if (run_again(arguments)) return true;
    require_comm(arguments.comm);
    if (is_mpis_own(arguments.comm)) return false;
    auto state = peers_of(arguments.comm) == 1 ? nullptr : state_for_blocking(arguments.comm, false);
    if (!state || state->is_mpis()) {
      check_before_mpi(arguments);
      return false;
    }
    check_call(arguments, *state);
    if (run_fast(arguments, *state)) return true;
    auto operation = acquire_operation();
    operation->begin(std::move(state), Mode::blocking, arguments.function);
    operation->take_arguments(arguments);
    run_to_end(std::move(operation));
    return true;
  };
  return run_or_forward(arguments, ours, [&] { return leave_to_mpi(arguments); });
}

}  // namespace tapa
