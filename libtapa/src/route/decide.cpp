#include "route/decide.hpp"

#include <exception>
#include <optional>

#include "comm/device_calls.hpp"
#include "comm/registry.hpp"
#include "memory/reserve.hpp"
#include "route/check_arguments.hpp"
#include "route/recall.hpp"
#include "route/ways.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/hello.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

Route left_to_mpi(const char* reason, CommState* state = nullptr) {
  Route route;
  route.reason = reason;
  route.state = state;
  return route;
}

/// Whether MPI is to refuse it. Throws CallError where that is ours.
bool is_for_mpi_to_refuse(MPI_Comm comm) {
  if (!is_drop_in()) require_comm(comm);
  return comm == MPI_COMM_NULL;
}

/// Whether arguments are right. False, under the drop-in: they are not, and MPI says so. Throws CallError.
bool are_right(const Arguments& a, const CommState& state, Check check) {
  if (check == Check::off) return true;
  const bool drop_in = is_drop_in();
  try {
    check_arguments(a, state.size, check != Check::mpi, drop_in && mpi_checks().own_block ? state.rank : -1);
    return true;
  } catch (const Mistake& mistake) {
    if (!drop_in || !mpi_checks().arguments) throw;
    error_notes().note(a.function, mistake.what());
    say_if_fatal(a.comm);
    return false;
  }
}

/// A call of a neighbourhood where there is none, as MPI will say.
bool has_no_edges(const Arguments& a) {
  return a.neighbours && a.edges == nullptr;
}

/// Whether a block lies in GPU memory. Throws CallError where no way knows the GPU.
bool on_device(const Arguments& a, int ranks) {
  const char* const buffer = may_be_of_gpu(a) ? buffer_on_device(a, ranks) : nullptr;
  if (buffer != nullptr && gpu_use() != GpuUse::cuda)
    refuse_device_memory(buffer,
                         "of a GPU whose driver is not CUDA's, and that this process first used when the "
                         "communicator was set up already; use it before, make another communicator, or set "
                         "TAPA_ENABLE=0: then MPI gets such calls");
  return buffer != nullptr;
}

/// Alike on all ranks, but for `stage`, which is `host` on ranks with nothing in GPU memory.
CallWay way_of_buffers(const Arguments& arguments, CommState& state) {
  const auto local = [&] { return on_device(arguments, state.size) ? CallWay::stage : CallWay::host; };
  if (DeviceCalls* const calls = state.device_calls()) {
    const CallWay way = calls->agree(arguments, state.rules().device.mpi_takes, state.waiter());
    return way == CallWay::stage ? local() : way;
  }
  return state.rules().trusts_buffers ? CallWay::host : local();
}

/// By this process's environment and MPI; what a communicator's ranks agree on is in its state.
bool mpi_takes_it_here() {
  static const bool takes = [] {
    const Settings& s = own_options().settings();
    if (s.gpu == GpuBuffers::mpi || s.gpu == GpuBuffers::host) return true;
    if (s.gpu == GpuBuffers::stage) return false;
    return s.mpi_takes_gpu_memory(mpi_takes_device_memory());
  }();
  return takes;
}

/// Bytes of every block of a call, or nothing where they may differ.
std::optional<std::size_t> uniform_bytes(const Arguments& arguments, CommState& state) {
  const Side& side = arguments.neighbours ? arguments.send : arguments.recv;
  if (arguments.form != Form::uniform || side.type == MPI_DATATYPE_NULL || side.count < 0)
    return std::nullopt;
  if (arguments.neighbours && !state.parts()->neighbourhood.shape().everywhere) return std::nullopt;
  return static_cast<std::size_t>(side.count) * type_info(side.type).size;
}

/// Whether MPI has no persistent calls of this kind, or does not take the GPU memory of a buffer.
bool mpi_cannot(const Arguments& arguments) noexcept {
  try {
    require_mpi_init(arguments);
    return must_stage_for_mpi(arguments);
  } catch (const std::exception&) {
    return true;
  }
}

/// Why a neighbourhood's calls are MPI's; null: they may not be. Alike on all ranks.
const char* reason_for_mpi_of_neighbours(CommState& state) {
  const Rules& rules = state.rules();
  if (!rules.enable) return reasons::disabled;
  if (rules.mpi_is_forced) return reasons::asked;
  return state.device_calls() != nullptr ? reasons::device : nullptr;
}

/// Why a call that is not blocking is MPI's although its communicator is set up; null: it is not. Decided at
/// the call, not when its turn comes: what MPI carries out must begin in the program's own order.
template <Mode mode>
const char* reason_for_mpi(const Arguments& arguments, CommState& state) {
  const Rules& rules = state.rules();
  constexpr bool persistent = mode == Mode::persistent;
  if (rules.is_mpis) return reasons::device;
  if (!state.membership.world->has_progress) return reasons::no_progress;
  if (rules.mpi_is_forced && !persistent) return reasons::asked;
  // Nothing can be agreed now, and buffers may be in GPU memory.
  if (rules.leaves_persistent()) return reasons::device;
  if (arguments.neighbours) {
    if (const char* const reason = reason_for_mpi_of_neighbours(state)) return reason;
  }
  if (persistent && (!is_drop_in() || mpi_cannot(arguments))) return nullptr;
  const std::optional<std::size_t> bytes = uniform_bytes(arguments, state);
  const auto parts = state.parts();
  const bool memory = parts->regions.available();
  if (arguments.neighbours && edges_go_through_memory(*parts, memory)) return nullptr;
  const Offer offer{!persistent, memory, true, arguments.neighbours};
  if (leaves_unproven(*parts, bytes, offer)) return reasons::proven;
  if (arguments.neighbours) return nullptr;
  if (persistent || !bytes || *bytes == 0 || !countable(*bytes)) return nullptr;
  return uniform_plan(*parts, *bytes, offer)->choice.algorithm == Algorithm::mpi ? reasons::proven : nullptr;
}

/// Null: calls on the communicator are MPI's own. `make`: of registry.hpp.
CommState* own_state(MPI_Comm comm, std::shared_ptr<CommState> (*make)(MPI_Comm)) {
  CommState* const state = remembered_state(comm);
  return state != nullptr || is_mpis_own(comm) ? state : state_at(comm, make);
}

}  // namespace

void require_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) refuse(MPI_ERR_COMM, "comm is MPI_COMM_NULL, expected a communicator");
}

bool is_intercomm(MPI_Comm comm) {
  int inter = 0;
  check_mpi(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  return inter != 0;
}

int peers_of(MPI_Comm comm) {
  if (!is_intercomm(comm)) return size_of(comm);
  int size = 0;
  check_mpi(PMPI_Comm_remote_size(comm, &size), "MPI_Comm_remote_size");
  return size;
}

bool is_mpis_own(MPI_Comm comm) {
  return !world_began() || world_ends() || is_intercomm(comm);
}

const Edges* edges_at(MPI_Comm comm, bool nonblocking) {
  if (comm == MPI_COMM_NULL) return nullptr;
  CommState* const state = own_state(comm, state_of);
  return state != nullptr ? state->edges(nonblocking) : nullptr;
}

bool decide_like_before(const Arguments& arguments, Route& route) {
  CommState* state = nullptr;
  const Uniform* const blocks = remembered_blocks(arguments, state);
  if (blocks == nullptr) return false;
  route = claim_uniform(arguments, *state, *blocks);
  return route.carrier != Carrier::plan;
}

Route decide_comm(const Arguments& arguments, bool alone) {
  memory::keep_reserve();
  const MPI_Comm comm = arguments.comm;
  if (is_for_mpi_to_refuse(comm)) return left_to_mpi(reasons::wrong);
  CommState* const state = own_state(comm, state_to_set_up);
  if (state == nullptr) return left_to_mpi(reasons::foreign);
  if (state->size == 1 && !alone) {
    if (is_drop_in()) static_cast<void>(state->welcome(false));  // so it is remembered
    return left_to_mpi(reasons::alone);
  }
  if (has_no_edges(arguments)) return left_to_mpi(reasons::wrong);
  // Other ranks need not know of a wrong call: first, but that linked programs agree on the option before.
  const bool first = state->ready() || (is_drop_in() && !state->given_up);
  if (first &&
      !are_right(arguments, *state, state->ready() ? state->rules().check : own_options().settings().check))
    return left_to_mpi(reasons::wrong);
  if (!state->ready()) {
    if (is_drop_in() && !state->welcome(alone)) return left_to_mpi(reasons::not_ready);
    state->set_up();
  }
  state->ask_for_gpus();
  if (state->rules().is_mpis) return left_to_mpi(reasons::device, state);
  if (!first) static_cast<void>(are_right(arguments, *state, state->rules().check));
  return in_order(*state);
}

Route decide_blocking(const Arguments& arguments, CommState& state) {
  if (arguments.neighbours) {
    if (const char* const reason = reason_for_mpi_of_neighbours(state)) return left_to_mpi(reason, &state);
  }
  switch (way_of_buffers(arguments, state)) {
    case CallWay::host:
      return claim(arguments, state);
    case CallWay::engine: {
      Route route = in_order(state);
      route.carrier = Carrier::device;
      return route;
    }
    case CallWay::stage: {
      Route route = in_order(state);
      route.how = HandOver::staged;
      return route;
    }
    default:
      return left_to_mpi(reasons::device, &state);
  }
}

// What is not set up is MPI's: a nonblocking call must not wait for other ranks, and may not send to them
// before the program's next call either, as MPI's own nonblocking calls have their place in that order.
Route decide_nonblocking(const Arguments& arguments) {
  memory::keep_reserve();
  CommState* state = remembered_state(arguments.comm);
  if (state == nullptr || !state->ready() || state->size == 1) {
    if (is_for_mpi_to_refuse(arguments.comm)) return left_to_mpi(reasons::wrong);
    if (is_mpis_own(arguments.comm)) return left_to_mpi(reasons::foreign);
    if (peers_of(arguments.comm) == 1) return left_to_mpi(reasons::alone);
    state = state_at(arguments.comm, find_state);
  }
  if (state == nullptr || !state->ready()) {
    if (is_drop_in()) remember_waiting(arguments.comm);
    return left_to_mpi(reasons::not_ready);
  }
  if (has_no_edges(arguments)) return left_to_mpi(reasons::wrong);
  const char* const reason = reason_for_mpi<Mode::nonblocking>(arguments, *state);
  if (reason != nullptr) return left_to_mpi(reason, state);
  return are_right(arguments, *state, state->rules().check) ? in_order(*state) : left_to_mpi(reasons::wrong);
}

Route decide_persistent(const Arguments& arguments) {
  if (is_for_mpi_to_refuse(arguments.comm)) return left_to_mpi(reasons::wrong);
  if (is_mpis_own(arguments.comm)) return left_to_mpi(reasons::foreign);
  Route route = decide_comm(arguments, !is_drop_in() || mpi_cannot(arguments));
  if (route.carrier == Carrier::mpi) return route;
  const char* const reason = reason_for_mpi<Mode::persistent>(arguments, *route.state);
  return reason != nullptr ? left_to_mpi(reason, route.state) : route;
}

std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, const CommState& state) {
  if (state.rules().trusts_buffers || !on_device(arguments, state.size)) return nullptr;
  return std::make_unique<StagedCall>(arguments, state.size, *cuda_driver());
}

bool must_stage_for_mpi(const Arguments& arguments) {
  return gpu_use() == GpuUse::cuda && !mpi_takes_it_here() &&
         buffer_on_device(arguments, peers_of(arguments.comm)) != nullptr;
}

}  // namespace tapa
