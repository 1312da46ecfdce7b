#include "run/progress.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "files/environment.hpp"
#include "run/error.hpp"
#include "run/handover.hpp"
#include "run/private_comm.hpp"
#include "run/progress_parts.hpp"

namespace tapa {

namespace {

// Open MPI's list of functions that opal_progress() calls (opal/runtime/opal_progress.h).
using HookFunction = int (*)(int (*)());

HookFunction open_mpi(const char* name) {
#ifdef OPEN_MPI
  return reinterpret_cast<HookFunction>(dlsym(RTLD_DEFAULT, name));  // NOLINT: that is how dlsym is used
#else
  static_cast<void>(name);
  return nullptr;
#endif
}

/// Looked up once: that takes longer than a short exchange. Null: there are none.
struct Hooks {
  HookFunction add = open_mpi("opal_progress_register");
  HookFunction remove = open_mpi("opal_progress_unregister");
};
const Hooks& hooks() {
  static const Hooks found;
  return found;
}

// MPICH's generalized requests that are polled. Found at run time: not every MPI of its kind has them, and
// its library of the standard's interface has the second name only.
#ifndef OPEN_MPI
using StartPolled = int (*)(MPI_Grequest_query_function*, MPI_Grequest_free_function*,
                            MPI_Grequest_cancel_function*, int (*)(void*, MPI_Status*),
                            int (*)(int, void**, double, MPI_Status*), void*, MPI_Request*);
StartPolled start_polled() {
  void* const found = dlsym(RTLD_DEFAULT, "PMPIX_Grequest_start");
  return reinterpret_cast<StartPolled>(
      found != nullptr ? found : dlsym(RTLD_DEFAULT, "MPIX_Grequest_start"));  // NOLINT: as above
}
#endif

// Whether a wait for several generalized requests sees those that another thread completes: not in MPICH 4.0.
#ifdef OPEN_MPI
constexpr bool threads_may_complete = true;
#else
constexpr bool threads_may_complete = false;
#endif

// Bytes of the buffers of messages that end operations: Intel MPI does not say of an empty one that a message
// from this rank to itself was too long.
constexpr int end_room = 1;

bool polling_possible() {
#ifndef OPEN_MPI
  return start_polled() != nullptr;
#else
  return false;
#endif
}

bool threads_allowed() {
  int level = MPI_THREAD_SINGLE;
  return PMPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

}  // namespace

std::string_view to_string(Driver driver) {
  switch (driver) {
    case Driver::hook:
      return "hook";
    case Driver::thread:
      return "thread";
    case Driver::wait:
      return "wait";
    case Driver::none:
      return "none";
  }
  return "none";
}

/// What MPI keeps for a generalized request: it outlives the task, until the user has completed the request.
struct Progress::Completion {
  std::string message;
  // Written last: the thread that asks need not be the one that completed.
  std::atomic<int> code = MPI_SUCCESS;
  std::atomic<bool> ended = false;

  static int query(void* state, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    const auto& completion = *static_cast<Completion*>(state);
    const int code = completion.code.load(std::memory_order_acquire);
    if (code != MPI_SUCCESS) set_last_error(completion.message);
    return code;
  }
  static int release(void* state) {
    delete static_cast<Completion*>(state);
    return MPI_SUCCESS;
  }
  static int cancel(void*, int) { return MPI_ERR_REQUEST; }  // collectives cannot be cancelled
  static int poll(void*, MPI_Status*) {
    if (instance().poll() == 0) std::this_thread::yield();  // MPI_Wait of MPICH calls this without a break
    return MPI_SUCCESS;
  }
  static int wait(int count, void** states, double, MPI_Status* status) {
    for (int i = 0; i < count; ++i) {
      while (!static_cast<Completion*>(states[i])->ended.load(std::memory_order_acquire))
        poll(nullptr, status);
    }
    return MPI_SUCCESS;
  }
};

struct Progress::Job {
  std::unique_ptr<Task> task;
  Completion* completion;  // null where the request is a receive
  MPI_Request request;
  int tag;  // of that receive
};

std::atomic<bool> Progress::awake_{false};
std::atomic<bool> Progress::made_{false};
std::atomic<bool> Progress::outlasts_{false};

Progress::Pause::Pause() : before_(per_thread.inside_engine) {
  per_thread.inside_engine = true;
}

Progress::Pause::~Pause() {
  per_thread.inside_engine = before_;
}

bool Progress::is_inside() {
  return per_thread.inside_engine;
}

void Progress::relay() {
  if (awake_.load(std::memory_order_relaxed)) instance().poll();
}

Progress& Progress::instance() {
  static auto* engine = new Progress;  // never destroyed: MPI may end after static objects
  return *engine;
}

void Progress::end() {
  if (made_) instance().shut_down();
}

void Progress::outlast_finalize() {
  outlasts_ = true;
}

Progress::Progress() {
  made_ = true;
  pick_driver();
  if (outlasts_) return;
  int keyval = MPI_KEYVAL_INVALID;
  // The deletion of this attribute is the first thing that MPI_Finalize does.
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, nullptr) != MPI_SUCCESS) return;
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, this);
  PMPI_Comm_free_keyval(&keyval);
}

void Progress::pick_driver() {
  const char* wish = files::variable("TAPA_PROGRESS");
  const std::string wanted = wish == nullptr ? "auto" : wish;
  const bool hook_possible = hooks().add != nullptr && hooks().remove != nullptr;
  const bool thread_possible = threads_allowed();
  if (wanted == "none") return;
  if (hook_possible && (wanted != "thread" || !thread_possible)) {
    driver_ = Driver::hook;
  } else if (thread_possible) {
    driver_ = Driver::thread;
  } else if (polling_possible()) {
    driver_ = Driver::wait;
  }
}

int Progress::on_finalize(MPI_Comm, int, void* value, void*) {
  static_cast<Progress*>(value)->shut_down();
  return MPI_SUCCESS;
}

int Progress::hook() {
  return instance().poll();
}

int Progress::poll() {
  const Inside inside(*this, std::try_to_lock);
  if (!inside) return 0;
  const int events = advance_all();
  rest();
  return events;
}

// From now on the driver calls us.
void Progress::wake() {
  awake_ = true;
  if (driver_ == Driver::hook && !hooked_) {
    hooks().add(&Progress::hook);
    hooked_ = true;
  } else if (driver_ == Driver::thread) {
    if (!thread_.joinable()) thread_ = std::thread(&Progress::run_thread, this);
    wake_.notify_one();
  }
}

// Nothing to do: MPI need not call us any more. The thread sees that by itself.
void Progress::rest() {
  if (!jobs_.empty() || persistent_count_ != 0) return;
  awake_ = false;
  if (!hooked_) return;
  hooks().remove(&Progress::hook);
  hooked_ = false;
}

void Progress::run_thread() {
  using namespace std::chrono_literals;
  constexpr int kPolls = 100;  // polls without an event before the thread sleeps between polls
  int idle = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (jobs_.empty() && persistent_count_ == 0) {
      wake_.wait(lock);
      idle = 0;
      continue;
    }
    idle = advance_all() > 0 ? 0 : idle + 1;
    lock.unlock();
    if (idle < kPolls) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(20us);
    }
    lock.lock();
  }
}

void Progress::shut_down() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  const Inside inside(*this);
  if (hooked_) hooks().remove(&Progress::hook);
  hooked_ = false;
  driver_ = Driver::none;
  // Requests that the program did not free are unusable now. Their records stay, as MPI may still free the
  // datatypes; what runs stays too, as MPI may still write into its memory.
  for (auto& p : persistent_) {
    if (p != nullptr && !p->active) p->task.reset();
  }
  if (self_ != MPI_COMM_NULL) PMPI_Comm_free(&self_);
  if (ends_ != MPI_COMM_NULL) PMPI_Comm_free(&ends_);
  if (type_keyval_ != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&type_keyval_);
}

int Progress::submit(std::unique_ptr<Task> task, MPI_Request* request) {
  if (driver_ == Driver::none) return MPI_ERR_UNSUPPORTED_OPERATION;
  const Inside inside(*this);
  jobs_.reserve(jobs_.size() + 1);  // so that nothing can fail once the request exists
  Job job{std::move(task), nullptr, MPI_REQUEST_NULL, 0};
  const int code = open(job);
  if (code != MPI_SUCCESS) return code;
  *request = job.request;
  jobs_.push_back(std::move(job));
  jobs_.back().task->start();
  advance_all();
  if (jobs_.empty()) {
    rest();
  } else {
    wake();
  }
  return MPI_SUCCESS;
}

// A message to nobody: MPI makes no new request for it.
int Progress::ended(MPI_Request* request) {
  return PMPI_Isend(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, request);
}

int Progress::advance_all() {
  const int events = find_starts() + advance_jobs() + advance_persistent();
  if (freed_ != 0) reclaim();
  return events;
}

int Progress::open(Job& job) {
  switch (driver_) {
    case Driver::hook:
      return open_generalized(job);
    case Driver::thread:
      return threads_may_complete ? open_generalized(job) : open_receive(job);
    case Driver::wait:
      return open_polled(job);
    case Driver::none:
      break;
  }
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

int Progress::open_polled([[maybe_unused]] Job& job) {
#ifndef OPEN_MPI
  auto completion = std::make_unique<Completion>();
  const int code = start_polled()(Completion::query, Completion::release, Completion::cancel,
                                  Completion::poll, Completion::wait, completion.get(), &job.request);
  if (code == MPI_SUCCESS) job.completion = completion.release();
  return code;
#else
  return MPI_ERR_UNSUPPORTED_OPERATION;
#endif
}

int Progress::open_generalized(Job& job) {
  auto completion = std::make_unique<Completion>();
  const int code = PMPI_Grequest_start(Completion::query, Completion::release, Completion::cancel,
                                       completion.get(), &job.request);
  if (code == MPI_SUCCESS) job.completion = completion.release();
  return code;
}

// What stands in for a generalized request: an empty message from this rank to itself completes it; a failure
// makes it one byte longer than its buffer. Not with Open MPI 4.1, whose MPI_Waitall hangs when a receive
// fails as it begins to wait.
int Progress::open_receive(Job& job) {
  constexpr int kTags = 32768;  // any MPI has that many
  if (const int code = make_self(); code != MPI_SUCCESS) return code;
  job.tag = next_tag_;
  next_tag_ = (next_tag_ + 1) % kTags;
  return PMPI_Irecv(&sink_, end_room, MPI_BYTE, 0, job.tag, ends_, &job.request);
}

void Progress::close(Job& job) {
  const int code = job.task->result();
  if (job.completion != nullptr) {
    try {
      if (code != MPI_SUCCESS) job.completion->message = job.task->message();
    } catch (const std::bad_alloc&) {
      job.completion->message = "out of memory";
    }
    job.completion->code.store(code, std::memory_order_release);
  }
  job.task.reset();  // first, so that what the program does after its wait finds everything released
  hand_over();
  if (job.completion != nullptr) {
    job.completion->ended.store(true, std::memory_order_release);  // before MPI may release it
    PMPI_Grequest_complete(job.request);
  } else {
    PMPI_Send(bytes_.data(), code == MPI_SUCCESS ? 0 : end_room + 1, MPI_BYTE, 0, job.tag, ends_);
    rouse();
  }
}

// A thread in MPI_Wait of MPICH 4.0 looks at its request again only after what MPICH counts as progress: a
// message from this rank to itself is none, the completion of a generalized request is.
void Progress::rouse() {
  const auto query = [](void*, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    return PMPI_Status_set_cancelled(status, 0);
  };
  const auto release = [](void*) -> int { return MPI_SUCCESS; };
  MPI_Request request = MPI_REQUEST_NULL;
  if (PMPI_Grequest_start(query, release, Completion::cancel, nullptr, &request) != MPI_SUCCESS) return;
  PMPI_Grequest_complete(request);
  PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

int Progress::advance_jobs() {
  int ended = 0;
  for (std::size_t i = 0; i < jobs_.size();) {
    Job& job = jobs_[i];
    if (!job.task->advance()) {
      ++i;
      continue;
    }
    close(job);
    if (&job != &jobs_.back()) job = std::move(jobs_.back());
    jobs_.pop_back();
    ++ended;
  }
  return ended;
}

// Communicators of this rank alone with tags of their own; their making involves no other rank.
int Progress::make_self() {
  if (ends_ != MPI_COMM_NULL) return MPI_SUCCESS;
  int code = PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_type_freed, &type_keyval_, nullptr);
  if (code == MPI_SUCCESS) code = make_private_comm(MPI_COMM_SELF, &self_);
  if (code == MPI_SUCCESS) code = make_private_comm(MPI_COMM_SELF, &ends_);
  return code;
}

void Progress::settle() {
  if (!always_advances()) return;
  const Inside inside(*this);
  static_cast<void>(make_self());
}

std::size_t Progress::pending() {
  const Inside inside(*this);
  return jobs_.size();
}

}  // namespace tapa
