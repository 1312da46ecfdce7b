#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "carry/carriers.hpp"
#include "carry/mpi_note.hpp"
#include "route/check_arguments.hpp"
#include "route/decide.hpp"
#include "route/recall.hpp"
#include "run/device_memory.hpp"
#include "run/mpi_bytes.hpp"
#include "run/mpi_call.hpp"
#include "run/per_thread.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

constinit std::atomic<bool> forwarded_init = false;

/// A call that MPI does not get as it was made, or not with these arrays. A nonblocking one owns what MPI
/// needs until it has ended.
class HandedCall final : public HandedToMpi, public Task {
 public:
  HandedCall(const Arguments& arguments, HandOver how, bool blocking) : function_(arguments.function) {
    const int peers = peers_of(arguments.comm);
    if (how != HandOver::as_made) check_arguments(arguments, peers, false);
    if (how == HandOver::staged) {
      staged_ = std::make_unique<StagedCall>(arguments, peers, *cuda_driver());
      staged_->fetch();
    }
    const Arguments& given = staged_ ? staged_->arguments() : arguments;
    if (!blocking) {
      given_ = for_mpi(given, peers, storage_);
    } else if (how == HandOver::as_made || arguments.neighbours || is_intercomm(arguments.comm)) {
      call_.emplace(given, peers, arguments.comm);
    } else {
      normalise(given, peers, blocks_);
      call_.emplace(given, blocks_, arguments.comm);
    }
  }
  /// MPI's code. Holds nothing: MPI's error handler may not return.
  [[nodiscard]] int call() { return call_ ? call_->call() : call_mpi(given_, given_.comm, &request_); }
  /// Of a blocking one, after a call without an error.
  void finish() {
    call_->finish();
    if (staged_) staged_->put_back();
  }

  /// The program may have freed the communicator by now, so its error handler cannot be set aside: the
  /// request is asked for its state, which calls none, and one that failed is not touched again.
  bool advance() noexcept override {
    int complete = 0;
    MPI_Status status{};
    code_ = PMPI_Request_get_status(request_, &complete, &status);
    if (code_ != MPI_SUCCESS || complete == 0) return code_ != MPI_SUCCESS;
    code_ = status.MPI_ERROR;
    if (code_ == MPI_SUCCESS) code_ = PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE);
    if (code_ == MPI_SUCCESS && staged_) code_ = staged_->try_copy(&StagedCall::put_back, message_);
    return true;
  }
  [[nodiscard]] int result() const noexcept override { return code_; }
  [[nodiscard]] std::string message() const override {
    return std::string(function_) + ": " + (message_.empty() ? mpi_error_text(code_) : message_);
  }

 private:
  const char* function_;
  std::unique_ptr<StagedCall> staged_;  // the copies that MPI works on, or null
  Exchange blocks_;
  std::optional<CallForMpi> call_;  // a blocking one
  MPI_Request request_ = MPI_REQUEST_NULL;
  MpiCallStorage storage_;
  Arguments given_;
  int code_ = MPI_SUCCESS;
  std::string message_;  // of what failed outside of MPI
};

/// Makes what a call owns while MPI carries it out; see HandedToMpi.
HandedCall* make_handed(const Arguments& arguments, HandOver how, bool blocking) {
  delete std::exchange(per_thread.handed, nullptr);
  auto* const call = new HandedCall(arguments, how, blocking);
  per_thread.handed = call;
  return call;
}

/// Takes it back, unless an error handler has made another such call since.
std::unique_ptr<HandedCall> take_handed(HandedCall* call) {
  if (per_thread.handed != call) return nullptr;
  per_thread.handed = nullptr;
  return std::unique_ptr<HandedCall>(call);
}

/// Whether MPI may get a blocking call on an intracommunicator wrong as it was made. It finds wrong types.
bool wants_bytes(const Arguments& arguments) {
  const bool w = arguments.form == Form::w;
  const auto has_types = [&](const Side& side) {
    return w ? side.types != nullptr : side.type != MPI_DATATYPE_NULL;
  };
  const bool complete = has_types(arguments.recv) && (arguments.in_place() || has_types(arguments.send));
  if (!complete || gpu_in_use()) return false;  // buffers may be in GPU memory
  if (arguments.has_equal_buffers()) return true;
  if (mixed_by_mpi(arguments, arguments.comm) == Mixed::none) return false;
  const int peers = peers_of(arguments.comm);
  bool right = !w || peers != 1;
  for (const Side* const side : {&arguments.recv, &arguments.sent()}) {
    for (int peer = 0; right && peer < (w ? peers : 1); ++peer) {
      const MPI_Datatype type = side->type_of(peer);
      right = type == MPI_DATATYPE_NULL || type_info(type).always_dense();
    }
  }
  return !right;
}

/// What owns what MPI needs, or null: MPI takes `given`, the call as it was made, also where there is no
/// memory for another way, or to refuse it. Throws CallError.
HandedCall* prepare(const Arguments& arguments, const Route& route, Mode mode, Arguments& given) {
  const bool blocking = mode == Mode::blocking;
  if (mode == Mode::persistent) require_mpi_init(arguments);
  // Where it is agreed that MPI takes GPU memory, and where it refuses the call, nobody looks.
  const bool as_made = arguments.neighbours || route.reason == reasons::wrong ||
                       (route.state != nullptr && route.state->rules().device.mpi_takes);
  HandOver how = route.how;
  if (!blocking && !as_made && must_stage_for_mpi(arguments)) how = HandOver::staged;
  if (mode == Mode::persistent) {
    if (how == HandOver::staged)
      refuse(MPI_ERR_BUFFER,
             "a buffer is GPU memory, expected host memory: this persistent call is MPI's, which does not "
             "take it (TAPA_GPU=else-mpi says that it does)");
    forwarded_init.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  // That MPI reads after it has returned.
  const bool has_arrays = MPI_VERSION < 4 && arguments.large && arguments.form != Form::uniform;
  const bool owns = how != HandOver::as_made || has_arrays;
  if (owns && !blocking && (!world_began() || Progress::instance().driver() == Driver::none))
    refuse(MPI_ERR_UNSUPPORTED_OPERATION,
           how == HandOver::staged ? "this MPI does not take GPU memory" : "this MPI has no large counts",
           " and no way to complete the call, expected MPI_THREAD_MULTIPLE or an MPI that has");
  try {
    if (owns) return make_handed(arguments, how, blocking);
  } catch (const Mistake&) {
    if (!blocking || !is_drop_in() || !mpi_checks().arguments) throw;
  } catch (const std::bad_alloc&) {
    if (how != HandOver::bytes) throw;
  }
  if (has_arrays && how != HandOver::as_made) return make_handed(arguments, HandOver::as_made, blocking);
  MpiCallStorage none;  // there are no arrays of large counts, or MPI takes these
  given = for_mpi(arguments, 0, none);
  return nullptr;
}

}  // namespace

void hand_over(const Arguments& arguments, Mode mode, Route& route) {
  const bool foreign = route.reason == reasons::foreign;
  // MPI checks the arguments of a program that knows nothing of us.
  const auto check = [&] {
    const Check wanted = own_options().settings().check;
    if (!is_drop_in() && !foreign && wanted != Check::off)
      check_arguments(arguments, peers_of(arguments.comm), wanted != Check::mpi);
  };
  if (mode != Mode::blocking) {
    if (route.reason != reasons::tags) check();
    return;
  }
  const bool agreed = route.state != nullptr && !route.chosen && !route.state->rules().is_mpis;
  if (!agreed && route.how != HandOver::staged && route.reason != reasons::wrong) {
    if (!route.chosen) check();
    const bool exactly = foreign || (route.chosen && route.state->rules().mpi_is_forced);
    if (!arguments.neighbours && route.state == nullptr && must_stage_for_mpi(arguments))
      route.how = HandOver::staged;
    else if (!arguments.neighbours && !exactly && wants_bytes(arguments))
      route.how = HandOver::bytes;
  }
  if (!route.chosen && !arguments.neighbours && route.how == HandOver::as_made) remember_forwarded(arguments);
}

int run_by_mpi(const Arguments& arguments, const Route& route, Mode mode, MPI_Request* request) {
  const MpiNote note(arguments, route);
  HandedCall* call = nullptr;
  Arguments given = arguments;
  int code =
      guarded(arguments.comm, arguments.function, [&] { call = prepare(arguments, route, mode, given); });
  if (code != MPI_SUCCESS) return note.end(code);
  code = in_mpi(arguments.function, [&] {
    if (call != nullptr) return call->call();
    return mode == Mode::persistent ? call_mpi_init(given, request) : call_mpi(given, given.comm, request);
  });
  if (call != nullptr && code != MPI_SUCCESS) {
    take_handed(call);
  } else if (call != nullptr) {
    code = guarded(arguments.comm, arguments.function, [&] {
      auto own = take_handed(call);
      if (own && mode == Mode::nonblocking)
        submit(std::move(own), request);
      else if (own)
        own->finish();
    });
  }
  return note.end(code);
}

bool has_forwarded_init() {
  return forwarded_init.load(std::memory_order_relaxed);
}

}  // namespace tapa
