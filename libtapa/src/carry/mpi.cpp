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

/// A nonblocking call that MPI carries out and whose narrowed count arrays must live as long as it does.
class HandedTask final : public Task {
 public:
  /// `staged`: the copies that MPI works on; may be null.
  HandedTask(const Arguments& arguments, int peers, std::unique_ptr<StagedCall> staged)
      : staged_(std::move(staged)), function_(arguments.function) {
    if (staged_) staged_->fetch();
    given_ = for_mpi(staged_ ? staged_->arguments() : arguments, peers, storage_);
  }
  /// MPI's code. Holds nothing: MPI's error handler may not return.
  [[nodiscard]] int begin() { return call_mpi(given_, given_.comm, &request_); }
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
  MPI_Request request_ = MPI_REQUEST_NULL;
  MpiCallStorage storage_;
  Arguments given_;
  std::unique_ptr<StagedCall> staged_;
  const char* function_;
  int code_ = MPI_SUCCESS;
  std::string message_;  // of what failed outside of MPI
};

/// Whether the call needs arrays that MPI reads after it has returned.
bool needs_arrays(const Arguments& arguments) {
  return MPI_VERSION < 4 && arguments.large && arguments.form != Form::uniform;
}

/// Throws CallError where nothing would complete a nonblocking call that MPI alone cannot: `what`.
void require_progress(const char* what) {
  if (world_began() && Progress::instance().driver() != Driver::none) return;
  refuse(MPI_ERR_UNSUPPORTED_OPERATION, what,
         " and no way to complete the call, expected MPI_THREAD_MULTIPLE or an MPI that has");
}

/// For a call with buffers that MPI does not take.
std::unique_ptr<StagedCall> stage_for_mpi(const Arguments& arguments, int peers) {
  check_arguments(arguments, peers, false);
  return std::make_unique<StagedCall>(arguments, peers, *cuda_driver());
}

/// A call that MPI does not get as it was made, or not with these arrays.
class HandedCall final : public HandedToMpi {
 public:
  /// A blocking one.
  HandedCall(const Arguments& arguments, HandOver how) {
    const int peers = peers_of(arguments.comm);
    if (how == HandOver::staged) {
      staged_ = stage_for_mpi(arguments, peers);
      staged_->fetch();
    } else if (how == HandOver::bytes) {
      check_arguments(arguments, peers, false);
    }
    const Arguments& given = staged_ ? staged_->arguments() : arguments;
    if (how == HandOver::as_made || arguments.neighbours || is_intercomm(arguments.comm)) {
      call_.emplace(given, peers, arguments.comm);
    } else {
      normalise(given, peers, blocks_);
      call_.emplace(given, blocks_, arguments.comm);
    }
  }
  explicit HandedCall(std::unique_ptr<HandedTask> task) : task_(std::move(task)) {}
  /// MPI's code. Holds nothing: MPI's error handler may not return.
  [[nodiscard]] int call() const { return task_ ? task_->begin() : call_->call(); }
  void finish(MPI_Request* request) {
    if (task_) return submit(std::move(task_), request);
    call_->finish();
    if (staged_) staged_->put_back();
  }

 private:
  std::unique_ptr<StagedCall> staged_;
  Exchange blocks_;
  std::optional<CallForMpi> call_;
  std::unique_ptr<HandedTask> task_;
};

/// Makes what a call owns while MPI carries it out; see HandedToMpi.
template <class... Parts>
HandedCall* make_handed(Parts&&... parts) {
  delete std::exchange(per_thread.handed, nullptr);
  auto* const call = new HandedCall(std::forward<Parts>(parts)...);
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
  if (how == HandOver::as_made) return needs_arrays(arguments) ? make_handed(arguments, how) : nullptr;
  try {
    return make_handed(arguments, how);
  } catch (const Mistake&) {
    if (!is_drop_in() || !mpi_checks().arguments) throw;
  } catch (const std::bad_alloc&) {
    if (how == HandOver::staged) throw;
  }
  return prepare_blocking(arguments, HandOver::as_made);
}

/// Null: MPI alone can carry it out.
HandedCall* prepare_nonblocking(const Arguments& arguments, bool as_made) {
  const bool staged = !as_made && must_stage_for_mpi(arguments);
  if (!staged && !needs_arrays(arguments)) return nullptr;
  require_progress(staged ? "this MPI does not take GPU memory" : "this MPI has no large counts");
  const int peers = peers_of(arguments.comm);
  return make_handed(
      std::make_unique<HandedTask>(arguments, peers, staged ? stage_for_mpi(arguments, peers) : nullptr));
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

/// Whether MPI gets a call as it was made wherever its buffers are: it is agreed, or MPI refuses it.
bool goes_as_made(const Arguments& arguments, const Route& route) {
  if (arguments.neighbours || route.reason == reasons::wrong) return true;
  return route.state != nullptr && route.state->rules().device.mpi_takes;
}

void require_init(const Arguments& arguments, bool as_made) {
  require_mpi_init(arguments);
  if (as_made || !must_stage_for_mpi(arguments)) return;
  refuse(MPI_ERR_BUFFER,
         "a buffer is GPU memory, expected host memory: this persistent call is MPI's, which does not "
         "take it (TAPA_GPU=else-mpi says that it does)");
}

/// What MPI is given: the call as it was made, with counts that MPI takes, or one that owns what it needs.
struct Given {
  Arguments arguments;
  HandedCall* call = nullptr;
};

Given prepare(const Arguments& arguments, const Route& route, Mode mode) {
  Given given{arguments};
  const bool as_made = goes_as_made(arguments, route);
  if (mode == Mode::persistent) {
    require_init(arguments, as_made);
    forwarded_init.store(true, std::memory_order_relaxed);
    return given;
  }
  given.call = mode == Mode::nonblocking ? prepare_nonblocking(arguments, as_made)
                                         : prepare_blocking(arguments, route.how);
  MpiCallStorage none;  // there are no arrays of large counts, or MPI takes these
  if (given.call == nullptr) given.arguments = for_mpi(arguments, 0, none);
  return given;
}

int give(const Given& given, Mode mode, MPI_Request* request) {
  if (given.call != nullptr) return given.call->call();
  return mode == Mode::persistent ? call_mpi_init(given.arguments, request)
                                  : call_mpi(given.arguments, given.arguments.comm, request);
}

/// MPI checks the arguments of a program that knows nothing of us.
void check_before_mpi(const Arguments& arguments) {
  const Check check = own_options().settings().check;
  if (!is_drop_in() && check != Check::off)
    check_arguments(arguments, peers_of(arguments.comm), check != Check::mpi);
}

/// Of a blocking call that the ranks have not agreed on.
HandOver way_to_mpi(const Arguments& arguments, const Route& route) {
  if (route.how == HandOver::staged) return HandOver::staged;
  if (route.reason == reasons::wrong || (route.chosen && arguments.neighbours)) return HandOver::as_made;
  if (route.chosen)
    return !route.state->rules().mpi_is_forced && wants_bytes(arguments) ? HandOver::bytes
                                                                         : HandOver::as_made;
  const bool foreign = route.reason == reasons::foreign;
  if (!foreign) check_before_mpi(arguments);
  if (arguments.neighbours) return HandOver::as_made;
  if (route.state == nullptr && must_stage_for_mpi(arguments)) return HandOver::staged;
  return !foreign && wants_bytes(arguments) ? HandOver::bytes : HandOver::as_made;
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
  Given given;
  int code = guarded(arguments.comm, arguments.function, [&] { given = prepare(arguments, route, mode); });
  if (code != MPI_SUCCESS) return note.end(code);
  code = in_mpi(arguments.function, [&] { return give(given, mode, request); });
  if (given.call != nullptr && code != MPI_SUCCESS) {
    take_handed(given.call);
  } else if (given.call != nullptr) {
    code = guarded(arguments.comm, arguments.function, [&] {
      if (const auto call = take_handed(given.call)) call->finish(request);
    });
  }
  return note.end(code);
}

bool has_forwarded_init() {
  return forwarded_init.load(std::memory_order_relaxed);
}

}  // namespace tapa
