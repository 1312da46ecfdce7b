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

/// Whether the call needs arrays that MPI reads after it has returned.
bool needs_arrays(const Arguments& arguments) {
  return MPI_VERSION < 4 && arguments.large && arguments.form != Form::uniform;
}

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

/// Null: MPI takes the call as it was made, also where there is no memory for another way, or to refuse it.
HandedCall* prepare_blocking(const Arguments& arguments, HandOver how) {
  if (how == HandOver::as_made) return needs_arrays(arguments) ? make_handed(arguments, how, true) : nullptr;
  try {
    return make_handed(arguments, how, true);
  } catch (const Mistake&) {
    if (!is_drop_in() || !mpi_checks().arguments) throw;
  } catch (const std::bad_alloc&) {
    if (how == HandOver::staged) throw;
  }
  return prepare_blocking(arguments, HandOver::as_made);
}

/// Null: MPI alone can carry it out. Throws CallError where nothing else would complete the call.
HandedCall* prepare_nonblocking(const Arguments& arguments, bool staged) {
  if (!staged && !needs_arrays(arguments)) return nullptr;
  if (!world_began() || Progress::instance().driver() == Driver::none)
    refuse(MPI_ERR_UNSUPPORTED_OPERATION,
           staged ? "this MPI does not take GPU memory" : "this MPI has no large counts",
           " and no way to complete the call, expected MPI_THREAD_MULTIPLE or an MPI that has");
  return make_handed(arguments, staged ? HandOver::staged : HandOver::as_made, false);
}

/// Whether all blocks of a side are dense. Wrong types are MPI's to find.
bool dense(const Arguments& arguments, const Side& side, int ranks) {
  const int types = arguments.form == Form::w ? ranks : 1;
  for (int peer = 0; peer < types; ++peer) {
    if (side.type_of(peer) != MPI_DATATYPE_NULL && !type_info(side.type_of(peer)).always_dense())
      return false;
  }
  return true;
}

bool is_complete(const Arguments& arguments) {
  const auto has_types = [&](const Side& side) {
    return arguments.form == Form::w ? side.types != nullptr : side.type != MPI_DATATYPE_NULL;
  };
  return has_types(arguments.recv) && (arguments.in_place() || has_types(arguments.send));
}

/// Whether MPI may get a blocking call on an intracommunicator wrong as it was made.
bool wants_bytes(const Arguments& arguments) {
  if (!is_complete(arguments) || gpu_in_use()) return false;  // buffers may be in GPU memory
  if (arguments.has_equal_buffers()) return true;
  if (mixed_by_mpi(arguments, arguments.comm) == Mixed::none) return false;
  const int peers = peers_of(arguments.comm);
  const bool right = dense(arguments, arguments.recv, peers) &&
                     (arguments.in_place() || dense(arguments, arguments.send, peers)) &&
                     (arguments.form != Form::w || peers != 1);
  return !right;
}

/// Whether MPI does not take the buffers of a call that is not blocking. Where it is agreed that it does, and
/// where MPI refuses the call, nobody looks.
bool is_staged(const Arguments& arguments, const Route& route) {
  const bool as_made = arguments.neighbours || route.reason == reasons::wrong ||
                       (route.state != nullptr && route.state->rules().device.mpi_takes);
  return !as_made && must_stage_for_mpi(arguments);
}

/// What owns what MPI needs, or null: MPI takes `given`.
HandedCall* prepare(const Arguments& arguments, const Route& route, Mode mode, Arguments& given) {
  HandedCall* call = nullptr;
  if (mode == Mode::persistent) {
    require_mpi_init(arguments);
    if (is_staged(arguments, route))
      refuse(MPI_ERR_BUFFER,
             "a buffer is GPU memory, expected host memory: this persistent call is MPI's, which does not "
             "take it (TAPA_GPU=else-mpi says that it does)");
    forwarded_init.store(true, std::memory_order_relaxed);
  } else {
    call = mode == Mode::nonblocking ? prepare_nonblocking(arguments, is_staged(arguments, route))
                                     : prepare_blocking(arguments, route.how);
    MpiCallStorage none;  // there are no arrays of large counts, or MPI takes these
    if (call == nullptr) given = for_mpi(arguments, 0, none);
  }
  return call;
}

/// MPI checks the arguments of a program that knows nothing of us.
void check_before_mpi(const Arguments& arguments) {
  const Check check = own_options().settings().check;
  if (!is_drop_in() && check != Check::off)
    check_arguments(arguments, peers_of(arguments.comm), check != Check::mpi);
}

/// Of a blocking call that the ranks have not agreed on.
HandOver way_to_mpi(const Arguments& arguments, const Route& route) {
  if (route.how == HandOver::staged || route.reason == reasons::wrong) return route.how;
  const bool foreign = route.reason == reasons::foreign;
  if (!route.chosen && !foreign) check_before_mpi(arguments);
  if (arguments.neighbours) return HandOver::as_made;
  if (route.state == nullptr && must_stage_for_mpi(arguments)) return HandOver::staged;
  const bool exactly = foreign || (route.chosen && route.state->rules().mpi_is_forced);
  return !exactly && wants_bytes(arguments) ? HandOver::bytes : HandOver::as_made;
}

}  // namespace

void hand_over(const Arguments& arguments, Mode mode, Route& route) {
  if (mode != Mode::blocking) {
    if (route.reason != reasons::foreign && route.reason != reasons::tags) check_before_mpi(arguments);
    return;
  }
  const bool agreed = route.state != nullptr && !route.chosen && !route.state->rules().is_mpis;
  if (!agreed) route.how = way_to_mpi(arguments, route);
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
