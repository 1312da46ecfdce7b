#include "api/forward.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "api/check_arguments.hpp"
#include "api/device_buffers.hpp"
#include "api/entry.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/mpi_bytes.hpp"
#include "run/mpi_call.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

constinit std::atomic<bool> forwarded_init = false;

/// Copies what a nonblocking call has received to where it belongs; MPI's code.
int put_back(StagedCall& staged, std::string& message) noexcept {
  try {
    staged.put_back();
    return MPI_SUCCESS;
  } catch (const std::exception& e) {
    message = e.what();
    return MPI_ERR_OTHER;
  }
}

/// A nonblocking call that MPI carries out and whose narrowed count arrays must live as long as it does.
class HandedTask final : public Task {
 public:
  /// `staged`: the copies that MPI works on; may be null.
  HandedTask(const Arguments& arguments, int peers, std::unique_ptr<StagedCall> staged)
      : staged_(std::move(staged)), function_(arguments.function) {
    const QuietErrors quiet(arguments.comm);
    if (staged_) staged_->fetch();
    const Arguments& given = staged_ ? staged_->arguments() : arguments;
    check_mpi(call_mpi(given, peers, arguments.comm, &request_, storage_), "MPI's own all-to-all");
  }
  void start() noexcept override {}
  /// The program may have freed the communicator by now, so its error handler cannot be set aside: the
  /// request is asked for its state, which calls none, and one that failed is not touched again.
  bool advance() noexcept override {
    int complete = 0;
    MPI_Status status{};
    code_ = PMPI_Request_get_status(request_, &complete, &status);
    if (code_ != MPI_SUCCESS || complete == 0) return code_ != MPI_SUCCESS;
    code_ = status.MPI_ERROR;
    if (code_ == MPI_SUCCESS) code_ = PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE);
    if (code_ == MPI_SUCCESS && staged_) code_ = put_back(*staged_, message_);
    return true;
  }
  [[nodiscard]] int result() const noexcept override { return code_; }
  [[nodiscard]] std::string message() const override {
    return std::string(function_) + ": " + (message_.empty() ? mpi_error_text(code_) : message_);
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MpiCallStorage storage_;
  std::unique_ptr<StagedCall> staged_;
  const char* function_;
  int code_ = MPI_SUCCESS;
  std::string message_;  // of what failed outside of MPI
};

/// Whether the call needs arrays that MPI reads after it has returned.
bool needs_arrays(const Arguments& arguments) {
  return MPI_VERSION < 4 && arguments.large && arguments.form != Form::uniform;
}

/// `what`: why MPI alone cannot carry the call out.
void submit_handed(const Arguments& arguments, std::unique_ptr<StagedCall> staged, const char* what,
                   MPI_Request* request) {
  if (!world_began() || Progress::instance().driver() == Driver::none) {
    throw CallError(MPI_ERR_UNSUPPORTED_OPERATION,
                    std::string(what) +
                        " and no way to complete the call, expected MPI_THREAD_MULTIPLE or "
                        "an MPI that has");
  }
  auto task = std::make_unique<HandedTask>(arguments, peers_of(arguments.comm), std::move(staged));
  check_mpi(Progress::instance().submit(std::move(task), request), "MPI_Grequest_start");
}

/// For a call with buffers that MPI does not take.
std::unique_ptr<StagedCall> stage_for_mpi(const Arguments& arguments, int peers) {
  check_arguments(arguments, peers, false);
  return std::make_unique<StagedCall>(arguments, peers, *cuda_driver());
}

/// The narrowed arrays of this thread's last blocking call. Kept: MPI's error handler may jump over any
/// owner.
MpiCallStorage& kept_storage() {
  thread_local constinit MpiCallStorage* storage = nullptr;
  if (storage == nullptr) storage = new MpiCallStorage;
  return *storage;
}

/// Fills `narrowed` with the arguments as MPI takes them; reports what it cannot take.
int prepare(const Arguments& arguments, Arguments& narrowed) {
  return guarded(arguments.comm, arguments.function, [&] {
    MpiCallStorage none;  // as a rule: each thread would keep some
    const bool arrays = needs_arrays(arguments);
    narrowed = for_mpi(arguments, arrays ? peers_of(arguments.comm) : 0, arrays ? kept_storage() : none);
    return MPI_SUCCESS;
  });
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

}  // namespace

bool forward_in_bytes(const Arguments& arguments) {
  if (!is_complete(arguments) || gpu_in_use()) return false;  // buffers may be in GPU memory
  if (mixed_by_mpi(arguments, arguments.comm) == Mixed::none) return false;
  const int peers = peers_of(arguments.comm);
  const bool right = dense(arguments, arguments.recv, peers) &&
                     (arguments.in_place() || dense(arguments, arguments.send, peers)) &&
                     (arguments.form != Form::w || peers != 1);
  if (right) return false;
  check_arguments(arguments, peers, false);
  const QuietErrors quiet(arguments.comm);
  Exchange blocks;
  check_mpi(call_mpi(arguments, peers, arguments.comm, false, blocks), "MPI's own all-to-all");
  return true;
}

bool forward_staged(const Arguments& arguments) {
  if (gpu_use() != GpuUse::cuda) return false;
  const int peers = peers_of(arguments.comm);
  if (!must_stage_for_mpi(arguments, peers)) return false;
  const auto staged = stage_for_mpi(arguments, peers);
  staged->fetch();
  const QuietErrors quiet(arguments.comm);
  Exchange blocks;
  const bool as_made = is_intercomm(arguments.comm);
  check_mpi(call_mpi(staged->arguments(), peers, arguments.comm, as_made, blocks), "MPI's own all-to-all");
  staged->put_back();
  return true;
}

bool is_mpis_own(MPI_Comm comm) {
  return !world_began() || world_ends() || is_intercomm(comm);
}

int forward_blocking(const Arguments& arguments) {
  Arguments narrowed;
  const int code = prepare(arguments, narrowed);
  if (code != MPI_SUCCESS) return code;
  return in_mpi(arguments.function, [&] { return call_mpi(narrowed, arguments.comm, nullptr); });
}

int forward_nonblocking(const Arguments& arguments, bool as_made, MPI_Request* request) {
  const bool arrays = needs_arrays(arguments);
  if (arrays || (!as_made && gpu_use() == GpuUse::cuda)) {
    bool submitted = true;
    const int code = guarded(arguments.comm, arguments.function, [&] {
      const int peers = peers_of(arguments.comm);
      if (!as_made && must_stage_for_mpi(arguments, peers)) {
        submit_handed(arguments, stage_for_mpi(arguments, peers), "this MPI does not take GPU memory",
                      request);
      } else if (arrays) {
        submit_handed(arguments, nullptr, "this MPI has no large counts", request);
      } else {
        submitted = false;
      }
      return MPI_SUCCESS;
    });
    if (code != MPI_SUCCESS || submitted) return code;
  }
  Arguments narrowed;
  const int code = prepare(arguments, narrowed);
  if (code != MPI_SUCCESS) return code;
  return in_mpi(arguments.function, [&] { return call_mpi(narrowed, arguments.comm, request); });
}

int forward_init(const Arguments& arguments, bool as_made, MPI_Request* request) {
  const int code = guarded(arguments.comm, arguments.function, [&] {
    require_mpi_init(arguments);
    if (!as_made && gpu_use() == GpuUse::cuda && must_stage_for_mpi(arguments, peers_of(arguments.comm))) {
      throw CallError(MPI_ERR_BUFFER,
                      "a buffer is GPU memory, expected host memory: this persistent call is MPI's, which "
                      "does not take it (TAPA_GPU_MPI=yes says that it does)");
    }
    return MPI_SUCCESS;
  });
  if (code != MPI_SUCCESS) return code;
  forwarded_init.store(true, std::memory_order_relaxed);
  return in_mpi(arguments.function, [&] { return call_mpi_init(arguments, request); });
}

bool has_forwarded_init() {
  return forwarded_init.load(std::memory_order_relaxed);
}

}  // namespace tapa
