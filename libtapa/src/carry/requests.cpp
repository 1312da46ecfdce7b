#include "carry/requests.hpp"

#include <string>
#include <utility>

#include "carry/operation_pool.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {

/// Its failure is logged, as the thread that runs into it may not be the one that waits; what all ranks run
/// into rank 0 says. An error of a persistent operation cannot reach MPI_Wait, so it ends the program unless
/// the communicator had another error handler than MPI_ERRORS_ARE_FATAL when the request was made.
class OperationTask final : public Task {
 public:
  OperationTask(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep,
                std::unique_ptr<StagedCall> staged, bool persistent, bool fatal)
      : operation_(std::move(operation)),
        keep_(std::move(keep)),
        staged_(std::move(staged)),
        persistent_(persistent),
        empty_(operation_->finished()),
        fatal_(fatal) {}
  ~OperationTask() override {
    if (operation_->at_rest()) release_operation(std::move(operation_));
  }

  /// A nonblocking one has begun.
  void start() noexcept override {
    if (!persistent_ || empty_) return;
    if (staged_) copied_ = staged_->try_copy(&StagedCall::fetch, copy_message_);
    operation_->start();
  }
  bool advance() noexcept override {
    if (empty_) return true;
    if (!operation_->advance(false)) return false;
    if (staged_ && result() == MPI_SUCCESS) copied_ = staged_->try_copy(&StagedCall::put_back, copy_message_);
    if (result() == MPI_SUCCESS) return true;
    const bool seen = operation_->outcome().seen == CallError::Seen::everywhere;
    if (!seen || operation_->call().state->rank() == 0) log_error(message());
    if (fatal_) PMPI_Abort(MPI_COMM_WORLD, result());
    return true;
  }
  [[nodiscard]] int result() const noexcept override {
    return copied_ == MPI_SUCCESS ? operation_->outcome().code : copied_;
  }
  [[nodiscard]] std::string message() const override {
    return std::string(operation_->call().function) + ": " +
           (copied_ == MPI_SUCCESS ? operation_->outcome().message : copy_message_);
  }

 private:
  std::unique_ptr<Operation> operation_;
  std::shared_ptr<const void> keep_;
  std::unique_ptr<StagedCall> staged_;
  bool persistent_;
  bool empty_;  // no block has any bytes
  bool fatal_;
  int copied_ = MPI_SUCCESS;  // what became of copies between GPU and host
  std::string copy_message_;
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
  const bool persistent = operation->call().mode == Mode::persistent;
  if (persistent) complete(*operation);
  if (const Operation::Outcome outcome = operation->outcome(); persistent && outcome.code != MPI_SUCCESS) {
    release_operation(std::move(operation));
    if (outcome.out_of_tags) return false;
    throw CallError(outcome.code, outcome.message, outcome.seen);
  }
  auto task = std::make_unique<OperationTask>(std::move(operation), std::move(keep), std::move(staged),
                                              persistent, persistent && errors_are_fatal(comm));
  if (!persistent) {
    submit(std::move(task), request);
    return true;
  }
  const int code = Progress::instance().prepare(std::move(task), request);
  require_progress(code);
  check_mpi(code, "MPI_Ssend_init");
  return true;
}

}  // namespace tapa
