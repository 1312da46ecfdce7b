#include "api/entry.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/fast_path.hpp"
#include "comm/guest.hpp"
#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/progress.hpp"

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

int run_on_intercomm(const Arguments& arguments) {
  check_arguments(arguments, peers_of(arguments.comm));
  MpiCallStorage storage;
  return call_mpi(arguments, peers_of(arguments.comm), arguments.comm, nullptr, storage);
}

}  // namespace

void require_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) throw CallError(MPI_ERR_COMM, "comm is MPI_COMM_NULL, expected a communicator");
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
  if (state.checks_arguments()) check_arguments(arguments, state.size());
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
  const std::string message = operation->message();
  release_operation(std::move(operation));
  if (code != MPI_SUCCESS) throw CallError(code, message);
}

std::shared_ptr<CommState> ready_state(MPI_Comm comm) {
  require_comm(comm);
  if (is_intercomm(comm))
    throw CallError(MPI_ERR_COMM, "comm is an intercommunicator, expected an intracommunicator");
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

namespace {

/// MPI's own, where the library has nothing set up or nothing to gain. MPI checks the arguments of a program
/// that knows nothing of us.
int run_by_mpi(const Arguments& arguments, int ranks) {
  if (!is_guest()) check_arguments(arguments, ranks);
  MpiCallStorage storage;
  const double began = PMPI_Wtime();
  const int code = call_mpi(arguments, ranks, arguments.comm, nullptr, storage);
  if (auto state = CommState::find(arguments.comm)) state->count_newcomer(PMPI_Wtime() - began);
  return code;
}

}  // namespace

int run_blocking(const Arguments& arguments) noexcept {
  return guarded(arguments.comm, arguments.function, [&]() -> int {
    if (run_again(arguments)) return MPI_SUCCESS;
    require_comm(arguments.comm);
    if (is_intercomm(arguments.comm)) return run_on_intercomm(arguments);
    const int ranks = peers_of(arguments.comm);
    if (ranks == 1) return run_by_mpi(arguments, ranks);
    auto state = state_for_blocking(arguments.comm, false);
    if (!state) return run_by_mpi(arguments, ranks);
    check_call(arguments, *state);
    if (run_fast(arguments, *state)) return MPI_SUCCESS;
    auto operation = acquire_operation();
    operation->begin(std::move(state), Mode::blocking, arguments.function);
    operation->take_arguments(arguments);
    run_to_end(std::move(operation));
    return MPI_SUCCESS;
  });
}

}  // namespace tapa
