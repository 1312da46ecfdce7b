#include "api/requests.hpp"

#include <optional>
#include <string>
#include <utility>

#include "comm/guest.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/mpi_call.hpp"
#include "run/progress.hpp"

namespace tapa {

namespace {

/// A nonblocking operation. Its failure is logged, as the thread that runs into it may not be the one that
/// waits.
class OperationTask : public Task {
 public:
  OperationTask(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep)
      : operation_(std::move(operation)), keep_(std::move(keep)) {}
  ~OperationTask() override {
    if (operation_->ready() || operation_->finished()) release_operation(std::move(operation_));
  }

  void start() noexcept override {}
  bool advance() noexcept override {
    if (!operation_->advance(false)) return false;
    if (result() != MPI_SUCCESS) log_error(message());
    return true;
  }
  [[nodiscard]] int result() const noexcept override { return operation_->code(); }
  [[nodiscard]] std::string message() const override {
    return std::string(operation_->function()) + ": " + operation_->message();
  }

 protected:
  [[nodiscard]] Operation& operation() { return *operation_; }

 private:
  std::unique_ptr<Operation> operation_;
  std::shared_ptr<const void> keep_;
};

/// A persistent operation. An error cannot reach MPI_Wait, so it ends the program unless the communicator had
/// another error handler than MPI_ERRORS_ARE_FATAL when the request was made.
class PersistentTask final : public OperationTask {
 public:
  PersistentTask(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep, bool fatal)
      : OperationTask(std::move(operation), std::move(keep)),
        empty_(this->operation().finished()),
        fatal_(fatal) {}

  void start() noexcept override {
    if (!empty_) operation().start();
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

/// A nonblocking call that MPI carries out and whose narrowed count arrays must live as long as it does.
class HandedTask final : public Task {
 public:
  HandedTask(const Arguments& arguments, int peers) {
    check_mpi(call_mpi(arguments, peers, arguments.comm, &request_, storage_), "MPI's own all-to-all");
  }
  void start() noexcept override {}
  bool advance() noexcept override {
    int complete = 0;
    code_ = PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE);
    return complete != 0 || code_ != MPI_SUCCESS;
  }
  [[nodiscard]] int result() const noexcept override { return code_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MpiCallStorage storage_;
  int code_ = MPI_SUCCESS;
};

int hand_over(const Arguments& arguments, MPI_Request* request) {
  const int peers = peers_of(arguments.comm);
  if (!is_guest()) check_arguments(arguments, peers);
  if (MPI_VERSION < 4 && arguments.large && arguments.form != Form::uniform) {
    if (Progress::instance().driver() == Driver::none) {
      throw CallError(MPI_ERR_UNSUPPORTED_OPERATION,
                      "this MPI has no large counts and no way to complete the call, expected "
                      "MPI_THREAD_MULTIPLE or MPI 4");
    }
    check_mpi(Progress::instance().submit(std::make_unique<HandedTask>(arguments, peers), request),
              "MPI_Grequest_start");
    return MPI_SUCCESS;
  }
  MpiCallStorage unused;
  const int code = call_mpi(arguments, peers, arguments.comm, request, unused);
  if (code != MPI_SUCCESS) throw CallError(code, mpi_error_text(code));
  return MPI_SUCCESS;
}

bool errors_are_fatal(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return true;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return fatal;
}

std::unique_ptr<Operation> begin(const Arguments& arguments, std::shared_ptr<CommState> state, Mode mode) {
  check_call(arguments, *state);
  auto operation = acquire_operation();
  operation->begin(std::move(state), mode, arguments.function);
  operation->take_arguments(arguments);
  return operation;
}

/// Bytes of every block of the call, or nothing where they may differ.
std::optional<std::size_t> uniform_bytes(const Arguments& arguments) {
  if (arguments.form != Form::uniform || arguments.recv.type == MPI_DATATYPE_NULL) return std::nullopt;
  return static_cast<std::size_t>(arguments.recv.count) * type_info(arguments.recv.type).size;
}

int init_by_mpi(const Arguments& arguments, MPI_Request* request) {
  const int code = call_mpi_init(arguments, request);
  if (code != MPI_SUCCESS) throw CallError(code, mpi_error_text(code));
  return MPI_SUCCESS;
}

}  // namespace

void require_request(const MPI_Request* request) {
  if (request == nullptr)
    throw CallError(MPI_ERR_ARG, "request is null, expected the address of an MPI_Request");
}

void submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                      MPI_Request* request) {
  const int code = Progress::instance().submit(
      std::make_unique<OperationTask>(std::move(operation), std::move(keep)), request);
  if (code == MPI_ERR_UNSUPPORTED_OPERATION) {
    throw CallError(code,
                    "nothing would make the operation progress, expected Open MPI or MPI_THREAD_MULTIPLE");
  }
  check_mpi(code, "MPI_Grequest_start");
}

bool prepare_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep, MPI_Comm comm,
                       MPI_Request* request) {
  complete(*operation);
  if (operation->out_of_tags()) {
    release_operation(std::move(operation));
    return false;
  }
  if (operation->code() != MPI_SUCCESS) {
    const CallError error(operation->code(), operation->message());
    release_operation(std::move(operation));
    throw error;
  }
  const int code = Progress::instance().prepare(
      std::make_unique<PersistentTask>(std::move(operation), std::move(keep), errors_are_fatal(comm)),
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
int run_nonblocking(const Arguments& arguments, MPI_Request* request) noexcept {
  return guarded(arguments.comm, arguments.function, [&]() -> int {
    require_comm(arguments.comm);
    require_request(request);
    if (is_intercomm(arguments.comm)) return hand_over(arguments, request);
    auto state = CommState::find(arguments.comm);
    if (!state || !state->ready() || state->size() == 1 ||
        state->leaves_nonblocking(uniform_bytes(arguments)))
      return hand_over(arguments, request);
    submit_operation(begin(arguments, std::move(state), Mode::nonblocking), nullptr, request);
    return MPI_SUCCESS;
  });
}

int run_init(const Arguments& arguments, MPI_Request* request) noexcept {
  return guarded(arguments.comm, arguments.function, [&]() -> int {
    require_comm(arguments.comm);
    require_request(request);
    if (is_intercomm(arguments.comm)) return init_by_mpi(arguments, request);
    auto state = state_for_blocking(arguments.comm, true);
    if (!state || !state->has_progress()) return init_by_mpi(arguments, request);
    auto operation = begin(arguments, std::move(state), Mode::persistent);
    if (prepare_operation(std::move(operation), nullptr, arguments.comm, request)) return MPI_SUCCESS;
    return init_by_mpi(arguments, request);
  });
}

}  // namespace tapa
