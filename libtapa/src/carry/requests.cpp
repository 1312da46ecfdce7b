#include "carry/requests.hpp"

#include <string>
#include <utility>

#include "carry/operation_pool.hpp"
#include "run/log.hpp"

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
    if (operation_->at_rest()) release_operation(std::move(operation_));
  }

  void start() noexcept override {}
  bool advance() noexcept override {
    if (!operation_->advance(false)) return false;
    if (staged_ && result() == MPI_SUCCESS) copy(&StagedCall::put_back);
    const bool reported =
        operation_->outcome().seen == CallError::Seen::everywhere && operation_->call().state->rank() != 0;
    if (result() != MPI_SUCCESS && !reported) log_error(message());
    return true;
  }
  [[nodiscard]] int result() const noexcept override {
    return copied_ == MPI_SUCCESS ? operation_->outcome().code : copied_;
  }
  [[nodiscard]] std::string message() const override {
    return std::string(operation_->call().function) + ": " +
           (copied_ == MPI_SUCCESS ? operation_->outcome().message : copy_message_);
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

void require_progress(int code) {
  if (code != MPI_ERR_UNSUPPORTED_OPERATION) return;
  throw CallError(code,
                  "nothing would make the operation progress, expected Open MPI or MPI_THREAD_MULTIPLE");
}

}  // namespace

void submit(std::unique_ptr<Task> task, MPI_Request* request) {
  const int code = Progress::instance().submit(std::move(task), request);
  require_progress(code);
  check_mpi(code, "MPI_Grequest_start");
}

bool submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep, MPI_Comm comm,
                      MPI_Request* request, std::unique_ptr<StagedCall> staged) {
  if (operation->call().mode == Mode::nonblocking) {
    submit(std::make_unique<OperationTask>(std::move(operation), std::move(keep), std::move(staged)),
           request);
    return true;
  }
  complete(*operation);
  if (const Operation::Outcome outcome = operation->outcome(); outcome.code != MPI_SUCCESS) {
    release_operation(std::move(operation));
    if (outcome.out_of_tags) return false;
    throw CallError(outcome.code, outcome.message, outcome.seen);
  }
  const int code = Progress::instance().prepare(
      std::make_unique<PersistentTask>(std::move(operation), std::move(keep), std::move(staged),
                                       errors_are_fatal(comm)),
      request);
  require_progress(code);
  check_mpi(code, "MPI_Ssend_init");
  return true;
}

}  // namespace tapa
