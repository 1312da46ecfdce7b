// What is under way in a context: starting, looking, waiting, giving up.
#include <sched.h>

#include <algorithm>

#include "common/context.hpp"
#include "common/overdue.hpp"
#include "common/prompt_thread.hpp"
#include "common/start_thread.hpp"
#include "exchange/select_rows.hpp"
#include "exchange/struct_sizes.hpp"

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

void MpiContext::start(const dit_exchange_call& given, dit_request*& result) {
  require_good();
  require_argument(check_call(&given, place()));
  dit_exchange_call call = completed(given);
  if (call.memory_kind == DIT_MEMORY_CUDA && kind_.make_device != nullptr) {
    start_on_device(call, result);
    return;
  }
  if (const std::string wrong = check_host_memory(call, kind_.name); !wrong.empty())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, wrong);
  if (const std::string wrong = check_not_strided(call, kind_.name); !wrong.empty())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, wrong);
  // Agreeing on a layout would make this thread wait, while other ranks start those of other channels first.
  if (!threaded_everywhere_ && channels_.size() > 1) call.layout_id = 0;
  Channel& channel = *channels_[static_cast<std::size_t>(call.channel)];
  auto transfer = channel.exchange->prepare(call, place());
  Lock lock(mutex_);
  count_sent(call, place(), totals_);
  ++started_[static_cast<std::size_t>(call.channel)];
  const bool blocking = (call.flags & DIT_EXCHANGE_BLOCKING) != 0;
  const auto begun = Clock::now();
  // MPI's own blocking call, when all ranks make it.
  channel.overlapped = channel.overlapped || !blocking;
  if (blocking && !channel.overlapped && !limited_) {
    lock.unlock();
    run_here(*transfer);
    lock.lock();
    totals_.wait_seconds += seconds_since(begun);
    ++totals_.exchanges;
    return;
  }
  dit_request& request = enqueue(call, std::move(transfer));
  if (must_wait_in_line(request))
    start_by_thread(channel);
  else
    start_transfer(request, lock);  // no look at it yet: MPI may yield the core when it finds nothing
  result = &request;
  if (blocking) {
    wait_for(request, lock);
    totals_.wait_seconds += seconds_since(begun);
    take_finished(result);
    return;
  }
  lock.unlock();  // first, or the thread would wake up only to wait for the mutex
  if (threaded_) wake_.notify_one();
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

dit_request& MpiContext::enqueue(const dit_exchange_call& call, std::unique_ptr<Transfer> transfer) {
  auto made = std::make_unique<dit_request>();
  made->transfer = std::move(transfer);
  made->channel = channels_[static_cast<std::size_t>(call.channel)].get();
  made->number = started_[static_cast<std::size_t>(call.channel)];
  made->label = call_name(call.label);
  made->begun = Clock::now();
  under_way_.push_back(std::move(made));
  return *under_way_.back();
}

// The caller's thread posts it: waking another thread for that takes longer. But not when the start would
// wait for other ranks, nor past one of its channel that does.
bool MpiContext::must_wait_in_line(const dit_request& request) const {
  return threaded_ && (request.transfer->start_waits() ||
                       std::any_of(under_way_.begin(), under_way_.end(), [&](const auto& other) {
                         return other.get() != &request && other->channel == request.channel &&
                                !other->started;
                       }));
}

// What is in line and never starts would be waited for at the end.
void MpiContext::start_by_thread(Channel& channel) {
  if (channel.starter.joinable()) return channel.in_line.notify_one();
  try {
    channel.starter =
        start_thread("starts that wait for other ranks", [this, &channel] { run_starter(channel); });
  } catch (const PluginFailure& failure) {
    fail(failure.status(), failure.what());
  }
}

void MpiContext::start_transfer(dit_request& request, Lock& lock) {
  Channel& channel = *request.channel;
  try {
    if (request.transfer->start_waits()) {
      channel.starting = true;
      lock.unlock();
      request.transfer->start(request.request);
      lock.lock();
      channel.starting = false;
    } else {
      request.transfer->start(request.request);
    }
    request.started = true;
  } catch (const std::exception& e) {
    if (!lock.owns_lock()) lock.lock();
    channel.starting = false;
    const auto* failure = dynamic_cast<const PluginFailure*>(&e);
    fail(failure != nullptr ? failure->status() : DIT_ERROR_INTERNAL, request.label + ": " + e.what());
  }
}

// Looks at everything once. With the mutex held.
void MpiContext::advance() {
  if (arrivals_ && Clock::now() >= next_look_) {
    arrivals_->serve(started_);
    next_look_ = Clock::now() + kNoticePause;
  }
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

void MpiContext::take_finished(dit_request*& request) {
  std::erase_if(under_way_, [request](const auto& known) { return known.get() == request; });
  request = nullptr;
}

void MpiContext::test(dit_request*& request) {
  if (devices_.holds(request)) return devices_.test(request);
  const Lock lock(mutex_);
  const dit_request& under_way = known(request);
  if (failed_ == DIT_OK && !under_way.done) advance();
  if (under_way.done)
    take_finished(request);
  else if (failed_ != DIT_OK)
    throw PluginFailure(failed_, failure_);
}

void MpiContext::wait(dit_request*& request) {
  const auto begun = Clock::now();
  if (devices_.holds(request)) devices_.wait(request);
  Lock lock(mutex_);
  if (request != nullptr) {
    wait_for(known(request), lock);
    take_finished(request);
  }
  totals_.wait_seconds += seconds_since(begun);
}

void MpiContext::cancel(dit_request*& request, dit_release release, void* user) {
  if (devices_.holds(request)) return devices_.cancel(request, release, user);
  const Lock lock(mutex_);
  dit_request& given_up = known(request);
  given_up.cancelled = true;
  given_up.release = release;
  given_up.user = user;
  request = nullptr;
}

// A look whose failure is for the next call to report.
void MpiContext::look_once() noexcept {
  try {
    if (failed_ == DIT_OK) advance();
  } catch (const std::exception&) {
  }
}

// Without the mutex: what is called may do anything but call the context.
void MpiContext::release_buffers() noexcept {
  tell_released([&] { return devices_.take_released(); });
  {
    const Lock lock(mutex_);
    const auto cancelled = [](const auto& request) { return request->cancelled; };
    if (std::any_of(under_way_.begin(), under_way_.end(), cancelled)) look_once();
  }
  tell_released([&]() -> std::optional<Release> {
    const Lock lock(mutex_);
    const auto is_free = [](const auto& request) { return request->cancelled && request->done; };
    const auto found = std::ranges::find_if(under_way_, is_free);
    if (found == under_way_.end()) return std::nullopt;
    const Release owner{(*found)->release, (*found)->user};
    under_way_.erase(found);
    return owner;
  });
}

std::string MpiContext::overdue(const dit_request& request, const std::string& missing) const {
  const int channel = request.channel->index;
  const std::string what = request.label + " (number " + std::to_string(request.number) +
                           (channel == 0 ? ")" : " of channel " + std::to_string(channel) + ")");
  const std::string text =
      overdue_words(what, seconds_since(request.begun), rank_, size(), settings_.timeout_seconds);
  if (missing.empty())
    return text + (request.started ? "all ranks have started it, one of them or the network is slower"
                                   : "all ranks have started it and still agree on what is exchanged");
  return text + "missing: " + missing +
         "; no sign of a rank means that it has not started this exchange, or makes no progress at all";
}

void MpiContext::wait_for(dit_request& request, Lock& lock) {
  struct Waiting {
    explicit Waiting(MpiContext& context) : context_(context) { ++context_.waiting_; }
    ~Waiting() {
      --context_.waiting_;
      if (context_.unfinished()) context_.wake_.notify_one();
    }
    MpiContext& context_;
  } const waiting(*this);
  const auto begun = Clock::now();
  const double limit = settings_.timeout_seconds;
  while (!request.done) {
    if (failed_ != DIT_OK) throw PluginFailure(failed_, failure_);
    advance();
    if (request.done) break;
    if (limit > 0 && seconds_since(begun) > limit) {
      const std::string missing = find_missing(request, lock);
      if (!request.done) throw PluginFailure(DIT_ERROR_TIMEOUT, overdue(request, missing));
    }
    pause_in_wait(lock);
  }
}

// Asks for arrivals, one thread at a time, and looks for answers for a moment; the exchange may end
// meanwhile.
std::string MpiContext::find_missing(const dit_request& request, Lock& lock) {
  const auto look_until = [&](const auto& enough) {
    const auto last = Clock::now() + kAnswersTime;
    while (failed_ == DIT_OK && !request.done && !enough() && Clock::now() < last) {
      pause_in_wait(lock);
      advance();
    }
  };
  while (asking_ && failed_ == DIT_OK) look_until([&] { return !asking_; });
  asking_ = true;
  std::string missing;
  try {
    arrivals_->ask(request.channel->index);
    look_until([&] { return arrivals_->all_answered(); });
    missing = arrivals_->missing(request.number);
  } catch (...) {
    asking_ = false;
    throw;
  }
  asking_ = false;
  return missing;
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
      if (waiting_ > 0 || !unfinished()) {
        wake_.wait(lock);
        continue;
      }
      wake_.wait_for(lock, pause(longest_pause_us_));
      if (!stopped_ && waiting_ == 0 && failed_ == DIT_OK) advance();
    }
  } catch (const PluginFailure&) {
    // Kept as the context's failure: the next call of the program reports it.
  }
}

// Starts in order what one channel has in line.
void MpiContext::run_starter(Channel& channel) {
  Lock lock(mutex_);
  try {
    while (!stopped_ && failed_ == DIT_OK) {
      const auto next = std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& request) {
        return request->channel == &channel && !request->started;
      });
      if (next == under_way_.end())
        channel.in_line.wait(lock);
      else
        start_transfer(**next, lock);
    }
  } catch (const PluginFailure&) {
    // As in run_thread.
  }
}

}  // namespace dit
