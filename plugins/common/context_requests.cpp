// What is under way in a context: starting, looking, waiting.
#include <sched.h>

#include <algorithm>

#include "common/context.hpp"
#include "common/prompt_thread.hpp"
#include "exchange/select_rows.hpp"

namespace dit {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void MpiContext::require_good() const {
  const Lock lock(mutex_);
  if (failed_ != DIT_OK)
    throw PluginFailure(failed_, "the context has failed before (" + failure_ + "), expected only close");
}

// With the mutex held.
void MpiContext::fail(dit_status status, const std::string& what) {
  failed_ = status;
  failure_ = what;
  throw PluginFailure(status, what);
}

void MpiContext::check(const dit_exchange_call& call) const {
  require_argument(check_call(&call, place()));
  if (const std::string wrong = check_host_memory(call, kind_.name); !wrong.empty())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, wrong);
}

dit_request* MpiContext::start(const dit_exchange_call& call) {
  require_good();
  check(call);
  auto transfer = exchange_->prepare(call, place());
  Lock lock(mutex_);
  count_sent(call, place(), totals_);
  const bool blocking = (call.flags & DIT_EXCHANGE_BLOCKING) != 0;
  const auto begun = Clock::now();
  // MPI's own blocking call, when order and time limit allow.
  if (blocking && under_way_.empty() && settings_.timeout_seconds <= 0) {
    lock.unlock();
    run_here(*transfer);
    lock.lock();
    totals_.wait_seconds += seconds_since(begun);
    ++totals_.exchanges;
    return nullptr;
  }
  dit_request& request = enqueue(call, std::move(transfer), lock);
  if (blocking) {
    wait_for(request, lock);
    totals_.wait_seconds += seconds_since(begun);
  }
  if (request.done) {
    take_finished(&request);
    return nullptr;
  }
  lock.unlock();  // first, or the thread would wake up only to wait for the mutex
  if (threaded_) wake_.notify_one();
  return &request;
}

void MpiContext::run_here(Transfer& transfer) {
  try {
    transfer.run();
  } catch (const PluginFailure& e) {
    const Lock lock(mutex_);
    fail(e.status(), e.what());
  }
  transfer.finish();
}

// The caller's thread posts it: waking the other thread for that takes longer. But not when the start would
// wait for other ranks, nor past one that does.
dit_request& MpiContext::enqueue(const dit_exchange_call& call, std::unique_ptr<Transfer> transfer,
                                 Lock& lock) {
  const bool wait_in_line =
      threaded_ && (transfer->start_waits() || (!under_way_.empty() && !under_way_.back()->started));
  auto made = std::make_unique<dit_request>();
  made->transfer = std::move(transfer);
  made->label = call_name(call.label);
  made->begun = Clock::now();
  under_way_.push_back(std::move(made));
  dit_request& request = *under_way_.back();
  if (wait_in_line) {
    wake_.notify_one();
  } else {
    start_transfer(request, lock);  // no look at it yet: MPI may yield the core when it finds nothing
  }
  return request;
}

void MpiContext::start_transfer(dit_request& request, Lock& lock) {
  try {
    if (request.transfer->start_waits()) {
      starting_ = true;
      lock.unlock();
      request.transfer->start(request.request);
      lock.lock();
      starting_ = false;
    } else {
      request.transfer->start(request.request);
    }
    request.started = true;
  } catch (const std::exception& e) {
    if (!lock.owns_lock()) lock.lock();
    starting_ = false;
    const auto* failure = dynamic_cast<const PluginFailure*>(&e);
    fail(failure != nullptr ? failure->status() : DIT_ERROR_INTERNAL, request.label + ": " + e.what());
  }
}

// Looks at everything once. With the mutex held.
void MpiContext::advance() {
  for (const auto& request : under_way_) {
    if (request->done || !request->started) continue;
    int done = 0;
    const int code = MPI_Test(&request->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS)
      fail(DIT_ERROR_COMMUNICATION, request->label + ": " + mpi_failure(code, "the exchange"));
    if (done == 0) continue;
    request->transfer->finish();
    request->done = true;
    ++totals_.exchanges;
  }
}

bool MpiContext::unfinished() const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [](const auto& request) { return !request->done; });
}

dit_request& MpiContext::known(dit_request* request) {
  const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                  [request](const auto& known) { return known.get() == request; });
  if (found == under_way_.end())
    throw PluginFailure(DIT_ERROR_ARGUMENT, "request is none of this context, expected one that start gave");
  return *request;
}

void MpiContext::take_finished(dit_request* request) {
  std::erase_if(under_way_, [request](const auto& known) { return known.get() == request; });
}

bool MpiContext::test(dit_request* request) {
  Lock lock(mutex_);
  const dit_request& under_way = known(request);
  if (failed_ == DIT_OK && !under_way.done) advance();
  if (under_way.done) {
    take_finished(request);
    return true;
  }
  if (failed_ != DIT_OK) throw PluginFailure(failed_, failure_);
  return false;
}

void MpiContext::wait(dit_request* request) {
  const auto begun = Clock::now();
  Lock lock(mutex_);
  wait_for(known(request), lock);
  take_finished(request);
  totals_.wait_seconds += seconds_since(begun);
}

std::string MpiContext::overdue(const dit_request& request) const {
  return request.label + " has not ended after " + std::to_string(seconds_since(request.begun)) +
         " s on rank " + std::to_string(rank_) + " of " + std::to_string(size()) + ", the limit is " +
         std::to_string(settings_.timeout_seconds) + " s: " +
         (request.started ? "a rank has not started it or is much slower"
                          : "a rank has not come to agree on what is exchanged");
}

void MpiContext::wait_for(dit_request& request, Lock& lock) {
  struct Waiting {
    explicit Waiting(MpiContext& context) : context_(context) { context_.waiting_ = true; }
    ~Waiting() {
      context_.waiting_ = false;
      if (context_.unfinished()) context_.wake_.notify_one();
    }
    MpiContext& context_;
  } const waiting(*this);
  const auto begun = Clock::now();
  while (!request.done) {
    if (failed_ != DIT_OK) throw PluginFailure(failed_, failure_);
    advance();
    if (request.done) break;
    if (settings_.timeout_seconds > 0 && seconds_since(begun) > settings_.timeout_seconds)
      fail(DIT_ERROR_TIMEOUT, overdue(request));
    pause_in_wait(lock);
  }
}

void MpiContext::pause_in_wait(Lock& lock) const {
  const auto sleep = pause(kLongestPauseOfWait * kWaitersHaste) / kWaitersHaste;
  lock.unlock();
  // A rank that only yields is still given its share of the core.
  if (crowded_)
    std::this_thread::sleep_for(sleep);
  else
    sched_yield();
  lock.lock();
}

// Short pauses for short exchanges, longer ones for those that last: the end is seen within an eighth of the
// time that they have taken.
std::chrono::microseconds MpiContext::pause(double longest_us) const {
  double microseconds = longest_us * 8;
  for (const auto& request : under_way_)
    if (!request->done) microseconds = std::min(microseconds, seconds_since(request->begun) * 1e6);
  const double shortest = std::min(kShortestPause, longest_us);
  return std::chrono::microseconds(static_cast<long>(std::max(microseconds / 8, shortest)));
}

void MpiContext::run_thread() {
  be_prompt();
  Lock lock(mutex_);
  try {
    while (!stopped_ && failed_ == DIT_OK) {
      const auto next = std::find_if(under_way_.begin(), under_way_.end(),
                                     [](const auto& request) { return !request->started; });
      if (next != under_way_.end()) {
        start_transfer(**next, lock);
        continue;
      }
      if (waiting_ || !unfinished()) {
        wake_.wait(lock);
        continue;
      }
      wake_.wait_for(lock, pause(longest_pause_us_));
      if (!stopped_ && !waiting_ && failed_ == DIT_OK) advance();
    }
  } catch (const PluginFailure&) {
    // Kept as the context's failure: the next call of the program reports it.
  }
}

}  // namespace dit
