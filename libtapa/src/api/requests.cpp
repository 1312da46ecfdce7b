#include "api/requests.hpp"

#include <string>
#include <utility>

#include "api/device_buffers.hpp"
#include "api/forward.hpp"
#include "api/forwarded.hpp"
#include "api/passing.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/mpi_call.hpp"
#include "run/progress.hpp"
#include "world/guest.hpp"

namespace tapa {

namespace {

/// A nonblocking operation. Its failure is logged, as the thread that runs into it may not be the one that
/// waits; what all ranks run into rank 0 says.
class OperationTask : public Task {
 public:
  OperationTask(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                std::unique_ptr<StagedCall> staged)
      : operation_(std::move(operation)), keep_(std::move(keep)), staged_(std::move(staged)) {}
  ~OperationTask() override {
    if (operation_->ready() || operation_->finished()) release_operation(std::move(operation_));
  }

  void start() noexcept override {}
  bool advance() noexcept override {
    if (!operation_->advance(false)) return false;
    if (staged_ && result() == MPI_SUCCESS) copy(&StagedCall::put_back);
    const bool told = operation_->seen() == CallError::Seen::everywhere && operation_->state()->rank() != 0;
    if (result() != MPI_SUCCESS && !told) log_error(message());
    return true;
  }
  [[nodiscard]] int result() const noexcept override {
    return copied_ == MPI_SUCCESS ? operation_->code() : copied_;
  }
  [[nodiscard]] std::string message() const override {
    return std::string(operation_->function()) + ": " +
           (copied_ == MPI_SUCCESS ? operation_->message() : copy_message_);
  }

 protected:
  [[nodiscard]] Operation& operation() { return *operation_; }
  /// Before each run but that of a nonblocking operation, whose caller does it.
  void fetch() {
    if (staged_) copy(&StagedCall::fetch);
  }

 private:
  void copy(void (StagedCall::*way)()) noexcept {
    try {
      ((*staged_).*way)();
    } catch (const std::exception& e) {
      copied_ = MPI_ERR_OTHER;
      copy_message_ = e.what();
    }
  }

  std::unique_ptr<Operation> operation_;
  std::shared_ptr<const void> keep_;
  std::unique_ptr<StagedCall> staged_;
  int copied_ = MPI_SUCCESS;  // what became of copies between GPU and host
  std::string copy_message_;
};

/// A persistent operation. An error cannot reach MPI_Wait, so it ends the program unless the communicator had
/// another error handler than MPI_ERRORS_ARE_FATAL when the request was made.
class PersistentTask final : public OperationTask {
 public:
  PersistentTask(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                 std::unique_ptr<StagedCall> staged, bool fatal)
      : OperationTask(std::move(operation), std::move(keep), std::move(staged)),
        empty_(this->operation().finished()),
        fatal_(fatal) {}

  void start() noexcept override {
    if (empty_) return;
    fetch();
    operation().start();
  }
  bool advance() noexcept override {
    if (empty_) return true;
    if (!OperationTask::advance()) return false;
    if (result() != MPI_SUCCESS && fatal_) PMPI_Abort(MPI_COMM_WORLD, result());
    return true;
  }

 private:
  bool empty_;  // no block has any bytes
  bool fatal_;
};

struct Begun {
  std::unique_ptr<Operation> operation;
  std::unique_ptr<StagedCall> staged;
};

Begun begin(const Arguments& arguments, std::shared_ptr<CommState> state, Mode mode) {
  check_call(arguments, *state);
  Begun begun{nullptr, staged_call(arguments, *state)};
  if (begun.staged && mode == Mode::nonblocking) begun.staged->fetch();
  begun.operation = acquire_operation();
  begun.operation->begin(std::move(state), mode, arguments.function);
  begun.operation->take_arguments(begun.staged ? begun.staged->arguments() : arguments);
  return begun;
}

/// Null: it is ours. `state` may be null.
const char* reason_for_nonblocking(const Arguments& arguments, CommState* state) {
  if (peers_of(arguments.comm) == 1) return reasons::alone;
  if (state == nullptr || !state->ready()) return reasons::not_ready;
  if (!state->leaves_nonblocking(uniform_bytes(arguments))) return nullptr;
  if (state->is_mpis()) return reasons::device;
  if (!state->has_progress()) return reasons::no_progress;
  if (state->mpi_is_forced()) return reasons::asked;
  return state->leaves_persistent() ? reasons::device : reasons::proven;
}

/// Whether MPI cannot carry a persistent call out: it has none of its kind, or a buffer is in GPU memory that
/// it does not take.
bool mpi_cannot(const Arguments& arguments) noexcept {
  try {
    require_mpi_init(arguments);
    return gpu_use() == GpuUse::cuda && must_stage_for_mpi(arguments, peers_of(arguments.comm));
  } catch (const std::exception&) {
    return true;
  }
}

const char* reason_for_persistent(const Arguments& arguments, CommState* state) {
  if (state == nullptr) return reason_for_blocking(arguments.comm, state);
  if (!state->has_progress()) return reasons::no_progress;
  if (state->is_mpis() || state->leaves_persistent()) return reasons::device;
  const auto parts = state->parts();
  const Offer offer{false, parts->regions.available(), true};
  const bool unproven = is_guest() && parts->leaves_unproven(uniform_bytes(arguments), offer);
  return unproven && !mpi_cannot(arguments) ? reasons::proven : nullptr;
}

}  // namespace

void submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                      MPI_Request* request, std::unique_ptr<StagedCall> staged) {
  const int code = Progress::instance().submit(
      std::make_unique<OperationTask>(std::move(operation), std::move(keep), std::move(staged)), request);
  if (code == MPI_ERR_UNSUPPORTED_OPERATION) {
    throw CallError(code,
                    "nothing would make the operation progress, expected Open MPI or MPI_THREAD_MULTIPLE");
  }
  check_mpi(code, "MPI_Grequest_start");
}

bool prepare_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep, MPI_Comm comm,
                       MPI_Request* request, std::unique_ptr<StagedCall> staged) {
  complete(*operation);
  if (operation->out_of_tags()) {
    release_operation(std::move(operation));
    return false;
  }
  if (operation->code() != MPI_SUCCESS) {
    const CallError error(operation->code(), operation->message(), operation->seen());
    release_operation(std::move(operation));
    throw error;
  }
  const int code = Progress::instance().prepare(
      std::make_unique<PersistentTask>(std::move(operation), std::move(keep), std::move(staged),
                                       errors_are_fatal(comm)),
      request);
  if (code == MPI_ERR_UNSUPPORTED_OPERATION) {
    throw CallError(code,
                    "nothing would make the operation progress, expected Open MPI or MPI_THREAD_MULTIPLE");
  }
  check_mpi(code, "MPI_Ssend_init");
  return true;
}

// What is not set up is MPI's: a nonblocking call must not wait for other ranks, and may not talk to them
// before the program's next call either, as MPI's own nonblocking calls have their place in that order.
int run_nonblocking(const Arguments& arguments, MPI_Request* request) {
  bool as_made = false;
  ForwardedCall counted(arguments);
  const auto ours = [&] {
    require_comm(arguments.comm);
    require_request(request);
    counted.forwarded(reasons::foreign);
    if (is_mpis_own(arguments.comm)) return false;
    auto state = CommState::find(arguments.comm);
    const char* const reason = reason_for_nonblocking(arguments, state.get());
    counted.forwarded(reason);
    if (reason != nullptr) {
      if (reason == reasons::not_ready && is_guest()) remember_not_ready(arguments.comm);
      as_made = state && state->ready() && state->device_way().mpi_takes;
      check_before_mpi(arguments);
      return false;
    }
    Begun begun = begin(arguments, std::move(state), Mode::nonblocking);
    submit_operation(std::move(begun.operation), nullptr, request, std::move(begun.staged));
    return true;
  };
  return counted.end(
      run_or_forward(arguments, ours, [&] { return forward_nonblocking(arguments, as_made, request); }));
}

int run_init(const Arguments& arguments, MPI_Request* request) {
  bool as_made = false;
  ForwardedCall counted(arguments);
  const auto ours = [&] {
    require_comm(arguments.comm);
    require_request(request);
    counted.forwarded(reasons::foreign);
    if (is_mpis_own(arguments.comm)) return false;
    CommState* const state = state_for_blocking(arguments.comm, !is_guest() || mpi_cannot(arguments));
    const char* const reason = reason_for_persistent(arguments, state);
    counted.forwarded(reason);
    if (reason != nullptr) {
      as_made = state != nullptr && state->ready() && state->device_way().mpi_takes;
      check_before_mpi(arguments);
      return false;
    }
    Begun begun = begin(arguments, state->shared_from_this(), Mode::persistent);
    const bool done = prepare_operation(std::move(begun.operation), nullptr, arguments.comm, request,
                                        std::move(begun.staged));
    if (!done) counted.forwarded(reasons::tags);
    return done;
  };
  return counted.end(
      run_or_forward(arguments, ours, [&] { return forward_init(arguments, as_made, request); }));
}

}  // namespace tapa
