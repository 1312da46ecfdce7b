#include <sched.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "carry/carriers.hpp"
#include "run/locked.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {

/// Those not in use.
struct Pool {
  std::vector<std::unique_ptr<Operation>> idle;
};

void release(std::unique_ptr<Operation> operation) noexcept {
  operation->end();
  try {
    locked<Pool>()->idle.push_back(std::move(operation));
  } catch (const std::bad_alloc&) {  // it goes, then
  }
}

/// Brings an operation to its end (or, persistent, to ready()), making other operations progress meanwhile.
void complete(Operation& operation) {
  using namespace std::chrono_literals;
  constexpr int drive_every = 4;  // advances: those that wait for memory, or for their turn, do not call MPI
  const Rules& rules = *operation.call().rules;
  for (int idle = 1; !operation.advance(rules.timeout <= 0); ++idle) {
    Progress::relay();
    if (idle % drive_every == 0) operation.call().state->waiter().drive_mpi();
    if (rules.waiting == WaitPolicy::yield) sched_yield();
    if (rules.waiting == WaitPolicy::sleep) std::this_thread::sleep_for(20us);
  }
}

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
    if (operation_->at_rest()) release(std::move(operation_));
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
    const bool seen = operation_->outcome.seen == CallError::Seen::everywhere;
    if (!seen || operation_->call().state->rank == 0) log_error(operation_->call().function, words());
    if (fatal_) PMPI_Abort(MPI_COMM_WORLD, result());
    return true;
  }
  [[nodiscard]] int result() const noexcept override {
    return copied_ == MPI_SUCCESS ? operation_->outcome.code : copied_;
  }
  [[nodiscard]] std::string message() const override {
    return std::string(operation_->call().function) + ": " + words();
  }

 private:
  [[nodiscard]] const char* words() const {
    return (copied_ == MPI_SUCCESS ? operation_->outcome.message : copy_message_).c_str();
  }

  std::unique_ptr<Operation> operation_;
  std::shared_ptr<const void> keep_;
  std::unique_ptr<StagedCall> staged_;
  bool persistent_;
  bool empty_;  // no block has any bytes
  bool fatal_;
  int copied_ = MPI_SUCCESS;  // what became of copies between GPU and host
  std::string copy_message_;
};

void check_request(int code, const char* call) {
  if (code == MPI_ERR_UNSUPPORTED_OPERATION)
    refuse(code, "nothing would make the operation progress, expected Open MPI or MPI_THREAD_MULTIPLE");
  check_mpi(code, call);
}

}  // namespace

void submit(std::unique_ptr<Task> task, MPI_Request* request) {
  check_request(Progress::instance().submit(std::move(task), request), "MPI_Grequest_start");
}

std::unique_ptr<Operation> begin_operation(std::shared_ptr<CommState> state, Mode mode, const char* function,
                                           MPI_Comm comm) {
  std::unique_ptr<Operation> operation;
  if (const auto pool = locked<Pool>(); !pool->idle.empty()) {
    operation = std::move(pool->idle.back());
    pool->idle.pop_back();
  }
  if (!operation) operation = std::make_unique<Operation>();
  operation->begin(std::move(state), mode, function, comm);
  return operation;
}

bool run_to_end(std::unique_ptr<Operation> operation, Route& route) {
  complete(*operation);
  const bool mpis = operation->is_mpis(route);
  const Operation::Outcome outcome = operation->outcome;
  release(std::move(operation));
  if (outcome.code != MPI_SUCCESS) throw CallError(outcome.code, outcome.message, outcome.seen);
  return !mpis;
}

bool submit_operation(std::unique_ptr<Operation> operation, std::shared_ptr<const void> keep, MPI_Comm comm,
                      MPI_Request* request, std::unique_ptr<StagedCall> staged) {
  const bool persistent = operation->call().mode == Mode::persistent;
  if (persistent) {
    complete(*operation);
    if (const Operation::Outcome outcome = operation->outcome; outcome.code != MPI_SUCCESS) {
      release(std::move(operation));
      if (outcome.out_of_tags) return false;
      throw CallError(outcome.code, outcome.message, outcome.seen);
    }
  }
  auto task = std::make_unique<OperationTask>(std::move(operation), std::move(keep), std::move(staged),
                                              persistent, persistent && errors_are_fatal(comm));
  if (persistent)
    check_request(Progress::instance().prepare(std::move(task), request), "MPI_Ssend_init");
  else
    submit(std::move(task), request);
  return true;
}

}  // namespace tapa
