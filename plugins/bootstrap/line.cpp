#include "bootstrap/line.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bootstrap/round_messages.hpp"
#include "common/start_thread.hpp"

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

constexpr Microseconds kShortestPause{50};  ///< between rounds in which nothing was ready
constexpr Microseconds kLongestPause{2000};

template <class Condition>
bool wait_within(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, double limit,
                 const Condition& condition) {
  if (limit <= 0) {
    changed.wait(lock, condition);
    return true;
  }
  // A limit of years would overflow the clock.
  const auto last = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(std::min(limit, 1e8)));
  return changed.wait_until(lock, last, condition);
}

}  // namespace

Line::Line(std::unique_ptr<CallerFunctions> functions) : functions_(std::move(functions)) {}

void Line::start() {
  thread_ = start_thread("the program's functions", [self = shared_from_this()] { self->run(); });
}

void Line::share(std::unique_ptr<SharedStarts> starts) {
  const Lock lock(mutex_);
  starts_ = std::move(starts);
  if (starts_) starts_->set(0, added_[0]);
}

std::string Line::missing(const Step& step) const {
  const Lock lock(mutex_);
  return starts_ == nullptr ? std::string() : starts_->missing(step.channel(), step.number_);
}

void Line::add(const std::shared_ptr<Step>& step) {
  {
    const Lock lock(mutex_);
    require_good_locked();
    steps_.push_back(step);
    step->number_ = ++added_[step->channel()];
    if (starts_) starts_->set(step->channel(), step->number_);
  }
  wake_.notify_one();
}

bool Line::ended(const Step& step) const {
  const Lock lock(mutex_);
  if (step.ended_ && step.failure_) throw PluginFailure(*step.failure_);
  return step.ended_;
}

bool Line::wait(const Step& step, double limit) {
  Lock lock(mutex_);
  if (!wait_within(lock, ended_, limit, [&] { return step.ended_; })) return false;
  if (step.failure_) throw PluginFailure(*step.failure_);
  return true;
}

std::uint64_t Line::exchanges() const {
  const Lock lock(mutex_);
  return exchanges_;
}

bool Line::is_over(const Step& step) const {
  const Lock lock(mutex_);
  return step.ended_;
}

bool Line::is_good() const {
  const Lock lock(mutex_);
  return !failure_;
}

void Line::require_good() const {
  const Lock lock(mutex_);
  require_good_locked();
}

void Line::require_good_locked() const {
  if (failure_)
    throw PluginFailure(DIT_ERROR_COMMUNICATION, std::string("the context has failed before (") +
                                                     failure_->what() + "), expected only close");
}

void Line::fail(const std::string& words) {
  const Lock lock(mutex_);
  fail_locked(words);
}

// The step that runs ends when its function has returned: until then it uses its buffers.
void Line::fail_locked(const std::string& words) {
  if (!failure_) failure_.emplace(DIT_ERROR_COMMUNICATION, words);
  std::erase_if(steps_, [&](const auto& step) {
    if (step.get() == running_) return false;
    step->failure_ = failure_;
    step->ended_ = true;
    return true;
  });
  ended_.notify_all();
  wake_.notify_one();
}

std::shared_ptr<Step> Line::drain(double limit) {
  Lock lock(mutex_);
  return wait_within(lock, ended_, limit, [&] { return steps_.empty(); }) ? nullptr : steps_.front();
}

bool Line::stop(double moment) {
  Lock lock(mutex_);
  stopped_ = true;
  wake_.notify_one();
  const bool out = wait_within(lock, ended_, moment, [&] { return out_ || !in_round_; });
  lock.unlock();
  if (out)
    thread_.join();
  else
    thread_.detach();
  return out;
}

// The oldest step of each channel, oldest first. With the mutex held.
Line::Steps Line::next_steps() const {
  Steps next;
  for (const auto& step : steps_) {
    const bool known = std::any_of(next.begin(), next.end(),
                                   [&](const auto& other) { return other->channel() == step->channel(); });
    if (!known) next.push_back(step);
  }
  return next;
}

void Line::run() {
  Lock lock(mutex_);
  Microseconds pause = kShortestPause;
  while (!stopped_ && !failure_) {
    if (steps_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Steps next = next_steps();
    const std::size_t in_line = steps_.size();
    in_round_ = true;
    lock.unlock();
    bool found = false;
    std::string failure;
    try {
      found = do_round(next);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    in_round_ = false;
    if (!failure.empty()) fail_locked(failure);
    ended_.notify_all();  // whoever stops the line
    if (found) {
      pause = kShortestPause;
      continue;
    }
    wake_.wait_for(lock, pause, [&] { return stopped_ || failure_ || steps_.size() != in_line; });
    pause = std::min(2 * pause, kLongestPause);
  }
  out_ = true;
  ended_.notify_all();
}

// Whether something was ready.
bool Line::do_round(const Steps& next) {
  const auto size = static_cast<std::size_t>(functions_->size());
  std::vector<NextStep> mine;
  {
    const Lock lock(mutex_);
    for (const auto& step : next)
      mine.push_back({step->number_, step->bytes(), step->channel(), step->kind()});
  }
  const Gathered gathered = gather_steps(*functions_, mine, next.front()->blocks());
  const std::vector<ReadyStep> ready = ready_steps(gathered.steps);
  for (const ReadyStep& found : ready) {
    Step& step = **std::find_if(next.begin(), next.end(),
                                [&](const auto& each) { return each->channel() == found.channel; });
    std::string problem = found.problem;
    std::vector<std::uint64_t> blocks;
    if (problem.empty() && step.kind() == StepKind::exchange) {
      blocks = found.first ? gathered.blocks : gather_blocks(*functions_, step.blocks());
      problem = disagreement(blocks, size);
    }
    if (problem.empty())
      run_step(step, blocks);
    else
      end(step, PluginFailure(DIT_ERROR_COMMUNICATION, step.name() + ": " + problem));
  }
  return !ready.empty();
}

void Line::run_step(Step& step, std::span<const std::uint64_t> blocks) {
  {
    const Lock lock(mutex_);
    if (failure_ || stopped_) throw PluginFailure(DIT_ERROR_COMMUNICATION, "the context is closed");
    running_ = &step;
  }
  try {
    step.run(*functions_, blocks);
  } catch (const std::exception& error) {
    const PluginFailure failure(DIT_ERROR_COMMUNICATION, step.name() + ": " + error.what());
    const Lock lock(mutex_);  // whoever sees the step's end sees the line's
    end_locked(step, failure);
    fail_locked(failure.what());
    throw PluginFailure(failure);
  }
  end(step, std::nullopt);
}

void Line::end(Step& step, std::optional<PluginFailure> failure) {
  const Lock lock(mutex_);
  end_locked(step, std::move(failure));
}

void Line::end_locked(Step& step, std::optional<PluginFailure> failure) {
  running_ = nullptr;
  if (!failure && step.kind() == StepKind::exchange) ++exchanges_;
  step.failure_ = std::move(failure);
  step.ended_ = true;
  std::erase_if(steps_, [&](const auto& each) { return each.get() == &step; });
  ended_.notify_all();
}

}  // namespace dit
