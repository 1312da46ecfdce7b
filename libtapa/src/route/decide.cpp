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
/// `ours`: a persistent one that is never MPI's for its size.
const char* reason_for_mpi(const Arguments& arguments, CommState& state, bool persistent, bool ours) {
  const Rules& rules = state.rules();
  if (rules.is_mpis) return reasons::device;
  if (!state.membership.world->has_progress) return reasons::no_progress;
  if (rules.mpi_is_forced && !persistent) return reasons::asked;
  // Nothing can be agreed now, and buffers may be in GPU memory.
  if (rules.leaves_persistent()) return reasons::device;
  if (arguments.neighbours) {
    if (const char* const reason = reason_for_mpi_of_neighbours(state)) return reason;
  }
  if (ours) return nullptr;
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

/// A blocking call with right arguments. Collective where buffers may be in GPU memory.
Route decide_by_buffers(const Arguments& arguments, CommState& state) {
  if (arguments.neighbours) {
    if (const char* const reason = reason_for_mpi_of_neighbours(state)) return left_to_mpi(reason, &state);
  }
  DeviceCalls* const calls = state.device_calls();
  DeviceWay way = state.rules().trusts_buffers ? DeviceWay::host : DeviceWay::stage;
  if (calls != nullptr) way = calls->agree(arguments, state.rules().device.mpi_takes, state.waiter());
  // That alone is not alike on all ranks: some have nothing in GPU memory.
  if (way == DeviceWay::stage && !on_device(arguments, state.size)) way = DeviceWay::host;
  switch (way) {
    case DeviceWay::host:
      return claim(arguments, state);
    case DeviceWay::engine:
      return {.carrier = Carrier::device, .state = &state};
    case DeviceWay::stage:
      return {.carrier = Carrier::plan, .state = &state, .how = HandOver::staged};
    default:
      return left_to_mpi(reasons::device, &state);
  }
}

/// Sets the communicator up where it is not, with right arguments, as far as option "check" asks: `plan`; or
/// why the call is MPI's: under the drop-in also as MPI is to say what is wrong. `alone`: also for one rank.
Route set_up(const Arguments& arguments, CommState& state, bool alone) {
  // Other ranks need not know of a wrong call: first, but that linked programs agree on the option before.
  const bool first = state.ready() || (is_drop_in() && !state.given_up);
  if (first &&
      !are_right(arguments, state, state.ready() ? state.rules().check : own_options().settings().check))
    return left_to_mpi(reasons::wrong);
  if (!state.ready()) {
    if (is_drop_in() && !state.welcome(alone)) return left_to_mpi(reasons::not_ready);
    state.set_up();
  }
  state.ask_for_gpus();
  if (state.rules().is_mpis) return left_to_mpi(reasons::device, &state);
  if (!first) static_cast<void>(are_right(arguments, state, state.rules().check));
  return in_order(state);
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
  CommState* state = remembered_state(comm);
  if (state == nullptr && !is_mpis_own(comm)) state = state_at(comm, state_of);
  return state != nullptr ? state->edges(nonblocking) : nullptr;
}

bool decide_like_before(const Arguments& arguments, Route& route) {
  CommState* state = nullptr;
  const Uniform* const blocks = arguments.neighbours ? nullptr : remembered_blocks(arguments, state);
  if (blocks == nullptr) return false;
  route = claim_uniform(arguments, *state, *blocks);
  return route.carrier != Carrier::plan;
}

template <Mode mode>
Route decide(const Arguments& arguments) {
  constexpr bool may_wait = mode != Mode::nonblocking;
  memory::keep_reserve();
  const MPI_Comm comm = arguments.comm;
  if (!is_drop_in()) require_comm(comm);
  if (comm == MPI_COMM_NULL) return left_to_mpi(reasons::wrong);
  CommState* state = remembered_state(comm);
  if (state == nullptr) {
    if (is_mpis_own(comm)) return left_to_mpi(reasons::foreign);
    state = state_at(comm, may_wait ? state_to_set_up : find_state);
  }
  const bool ours = mode == Mode::persistent && (!is_drop_in() || mpi_cannot(arguments));  // also of one rank
  if (!ours && (state != nullptr ? state->size : size_of(comm)) == 1) {
    if (may_wait && is_drop_in()) static_cast<void>(state->welcome(false));  // so it is remembered
    return left_to_mpi(reasons::alone);
  }
  // What is not set up is MPI's: a nonblocking call must not wait for other ranks, and may not send to them
  // before the program's next call either, as MPI's own nonblocking calls have their place in that order.
  if (!may_wait && (state == nullptr || !state->ready())) {
    if (is_drop_in()) remember_waiting(comm);
    return left_to_mpi(reasons::not_ready);
  }
  if (arguments.neighbours && arguments.edges == nullptr) return left_to_mpi(reasons::wrong);  // as MPI says
  if constexpr (may_wait) {
    if (const Route route = set_up(arguments, *state, ours); route.carrier == Carrier::mpi) return route;
  }
  if constexpr (mode == Mode::blocking) return decide_by_buffers(arguments, *state);
  if (const char* const reason = reason_for_mpi(arguments, *state, mode == Mode::persistent, ours))
    return left_to_mpi(reason, state);
  const bool right = may_wait || are_right(arguments, *state, state->rules().check);
  return right ? in_order(*state) : left_to_mpi(reasons::wrong);
}
template Route decide<Mode::blocking>(const Arguments&);
template Route decide<Mode::nonblocking>(const Arguments&);
template Route decide<Mode::persistent>(const Arguments&);

std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, const CommState& state) {
  if (state.rules().trusts_buffers || !on_device(arguments, state.size)) return nullptr;
  return std::make_unique<StagedCall>(arguments, state.size, *cuda_driver());
}

bool must_stage_for_mpi(const Arguments& arguments) {
  return gpu_use() == GpuUse::cuda && !mpi_takes_it_here() &&
         buffer_on_device(arguments, peers_of(arguments.comm)) != nullptr;
}

}  // namespace tapa
