#include "carry/operation.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "carry/explain.hpp"
#include "carry/mpi_sample.hpp"
#include "carry/window_tags.hpp"
#include "run/log.hpp"
#include "run/progress.hpp"

namespace tapa {

void Operation::begin(std::shared_ptr<CommState> state, Mode mode, const char* function, MPI_Comm comm) {
  state_ = std::move(state);
  rules_ = state_->held_rules();
  mode_ = mode;
  function_ = function;
  comm_ = comm;
  stage_ = Stage::turn;
  outcome_ = {};
  has_arguments_ = large_ = false;
  mpi_seconds_.reset();
  tags_ = {};
  window_.begin();
  judging_ = by_memory_ = false;
  choosing_.begin();
  started_ = PMPI_Wtime();
  watch_ = {function_, rules_->timeout, started_};
  state_->parts()->order.enqueue(this);
  queued_ = true;
}

void Operation::end() {
  if (!state_) return;
  leave_queue();
  run_.end(*state_, rules_->settings().keep);
  {
    const auto parts = state_->parts();
    parts->order.give_back(std::exchange(tags_, {}));
    window_.leave(*parts);
  }
  types_.free();
  choosing_.begin();
  rules_.reset();
  state_.reset();
  stage_ = Stage::idle;
}

void Operation::leave_queue() {
  if (std::exchange(queued_, false)) state_->parts()->order.leave(this);
}

void Operation::take_arguments(const Arguments& arguments) {
  has_arguments_ = true;
  large_ = arguments.large || arguments.neighbours;
  normalise(arguments, state_->size(), exchange_);
  if (mode_ == Mode::blocking) return;
  types_.hold(exchange_.recv);
  if (exchange_.in_place) {
    exchange_.send = exchange_.recv;
  } else {
    types_.hold(exchange_.send);
    types_.hold(exchange_.send_parts);
    types_.hold(exchange_.recv_parts);
  }
}

Subject Operation::subject() const {
  return {*state_, *rules_, exchange_, mode_, has_arguments_, large_, window_.buffers() != nullptr};
}

bool Operation::at_rest() const {
  return stage_ == Stage::finished || stage_ == Stage::idle || stage_ == Stage::mpi ||
         (stage_ == Stage::ready && mode_ == Mode::persistent);
}

bool Operation::advance(bool block) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  try {
    while (!at_rest() && step(block)) {
    }
    if (!at_rest()) watch_.look([this] { return waits_for(); });
  } catch (const CallError& e) {
    outcome_.seen = e.seen();
    fail(e.code(), e.what());
  } catch (const TransportError& e) {
    fail(code_of(e), e.what());
  } catch (const std::bad_alloc&) {
    fail(MPI_ERR_NO_MEM, "out of memory");
  } catch (const std::exception& e) {
    fail(MPI_ERR_INTERN, e.what());
  }
  return at_rest();
}

void Operation::fail(int code, const std::string& message) {
  outcome_.code = code;
  outcome_.message = message;
  leave_queue();
  if (numbers_.pending() || run_.in_flight()) tags_ = {};  // they may not be used again
  run_.give_up();
  window_.give_up();
  numbers_.give_up();
  choosing_.end(subject(), PMPI_Wtime() - started_, run_.bytes_through_memory());
  stage_ = Stage::finished;
}

bool Operation::step(bool block) {
  switch (stage_) {
    case Stage::turn:
      return step_turn();
    case Stage::window:
      if (!window_.step(*state_, tags_)) return false;
      after_turn();
      return true;
    case Stage::arrivals:
    case Stage::check:
    case Stage::verdict:
    case Stage::counts:
      return step_numbers();
    case Stage::plan:
      return step_plan();
    case Stage::ready:
    case Stage::launch:
      return launch();
    case Stage::running:
      return step_running(block);
    case Stage::sums:
      if (!run_.check_sums(subject())) return false;
      finish();
      return true;
    default:
      return false;
  }
}

bool Operation::step_turn() {
  {
    const auto parts = state_->parts();
    if (parts->order.first() != this) return false;
    if (mode_ != Mode::persistent) {
      const auto tags = parts->order.take_window();
      if (!tags) return false;  // an earlier operation of the same tags is under way
      tags_ = *tags;
    }
  }
  if (mode_ == Mode::persistent)
    stage_ = Stage::window;
  else
    after_turn();
  return true;
}

void Operation::after_turn() {
  by_memory_ = !judging_ && choosing_.goes_through_memory(subject());
  if (by_memory_) {
    stage_ = Stage::plan;  // who comes, and with which counts, is seen there
  } else if (rules_->timeout > 0) {
    numbers_.start_arrivals(*state_, tags_);
    stage_ = Stage::arrivals;
  } else {
    after_arrivals();
  }
}

void Operation::after_arrivals() {
  stage_ = Stage::plan;
  if (!rules_->compares() && !judging_) return;
  numbers_.start_check(*state_, tags_, exchange_);
  stage_ = Stage::check;
}

bool Operation::step_numbers() {
  if (!numbers_.test()) return false;
  switch (stage_) {
    case Stage::arrivals:
      after_arrivals();
      break;
    case Stage::check:
      numbers_.start_verdict(*state_, tags_, exchange_);
      stage_ = Stage::verdict;
      break;
    case Stage::verdict:
      numbers_.judge(*state_);
      if (judging_)
        throw CallError(MPI_ERR_TRUNCATE, "the two ends of a block differ", CallError::Seen::everywhere);
      stage_ = Stage::plan;
      break;
    default: {
      const std::vector<std::size_t> numbers = numbers_.numbers();
      choosing_.plan(subject(), numbers_.counts(*state_, numbers), numbers);
      take_plan();
    }
  }
  return true;
}

bool Operation::step_plan() {
  if (exchange_.uniform && exchange_.uniform_bytes == 0) {
    finish();
    return true;
  }
  switch (choosing_.step(subject(), tags_.first + window_tags::kAgree)) {
    case Choosing::Step::wait:
      return false;
    case Choosing::Step::counts:
      numbers_.start_counts(*state_, tags_, exchange_, choosing_.choice());
      stage_ = Stage::counts;
      return true;
    default:
      break;
  }
  if (choosing_.tried()) started_ = PMPI_Wtime();  // agreeing is no part of what is probed
  take_plan();
  return true;
}

void Operation::take_plan() {
  run_.choose(subject(), choosing_.entry(), window_.buffers());
  stage_ = Stage::ready;
  if (mode_ == Mode::persistent) leave_queue();
}

void Operation::start() {
  stage_ = Stage::launch;
  outcome_ = {};
  started_ = PMPI_Wtime();
  watch_ = {function_, rules_->timeout, started_};
}

/// False: not yet.
bool Operation::launch() {
  if (run_.is_mpis()) {
    stage_ = Stage::mpi;
  } else {
    if (!run_.claim()) return false;
    try {
      sample();
      run_.begin(subject(), tags_);
    } catch (...) {
      run_.unclaim();
      throw;
    }
    stage_ = Stage::running;
  }
  leave_queue();
  return true;
}

/// Runs MPI's own all-to-all beside this one, now and then.
void Operation::sample() {
  if (mode_ != Mode::blocking || comm_ == MPI_COMM_NULL || rules_->report != Reporting::on) return;
  const std::size_t bytes = choosing_.bytes_per_pair(exchange_);
  if (!state_->parts()->report.sample_due(function_, bytes, run_.entry()->text)) return;
  mpi_seconds_ = sample_mpi(exchange_, comm_);
  if (mpi_seconds_) started_ = PMPI_Wtime();
}

bool Operation::step_running(bool block) {
  if (!run_.advance(subject(), block)) return false;
  if (rules_->compares() && !run_.sizes_agree()) {
    judging_ = true;
    after_arrivals();
  } else if (rules_->check == Check::data) {
    stage_ = Stage::sums;
  } else {
    finish();
  }
  return true;
}

void Operation::finish() {
  if (run_.entry() != nullptr) run_.finish(exchange_);
  leave_queue();
  stage_ = Stage::finished;
  if (run_.entry() != nullptr) tell();
}

/// The autotuner, whoever reads explanations, and the report.
void Operation::tell() {
  const double seconds = PMPI_Wtime() - started_;
  choosing_.end(subject(), seconds, run_.bytes_through_memory());
  if (rules_->explain && state_->rank() == 0 && !choosing_.entry()->explained.exchange(true))
    print_line(explanation(*run_.entry(), function_, state_->size(), seconds));
  if (rules_->report == Reporting::off) return;
  std::optional<Sample> sample;
  if (mpi_seconds_) sample = Sample{seconds, *mpi_seconds_};
  const std::uint64_t sent = total_bytes(exchange_.send);
  // Where the ranks had no reason to agree on a mean this rank's own does.
  const std::size_t agreed = choosing_.bytes_per_pair(exchange_);
  const std::size_t bytes = agreed != 0 ? agreed : sent / static_cast<std::size_t>(state_->size());
  state_->parts()->report.count(function_, bytes, run_.entry()->text, {}, sent, seconds, sample);
}

bool Operation::is_mpis(Route& route) const {
  if (stage_ != Stage::mpi) return false;
  route.carrier = Carrier::mpi;
  route.state = state_.get();
  route.chosen = route.noted = true;
  route.tried = choosing_.tried().has_value();
  if (route.tried) route.key = *choosing_.tried();
  route.sent = total_bytes(exchange_.send);
  route.uniform = exchange_.uniform;
  route.bytes = choosing_.bytes_per_pair(exchange_);
  return true;
}

std::string Operation::waits_for() const {
  switch (stage_) {
    case Stage::turn:
      return "waits for an earlier operation on the communicator to begin";
    case Stage::window:
      return "waits for the other ranks to make their persistent requests";
    case Stage::arrivals:
      return "waits for " + ranks_text(numbers_.missing()) + " to make the call";
    case Stage::check:
    case Stage::verdict:
    case Stage::counts:
      return "waits for the counts of " + ranks_text(numbers_.missing());
    case Stage::sums:
      return "waits for the checksums of " + ranks_text(run_.missing_sums());
    case Stage::plan:
      return "waits for the agreed mean size";
    default:
      return run_.waits_for(subject());
  }
}

void complete(Operation& operation) {
  using namespace std::chrono_literals;
  constexpr int drive_every = 4;  // advances: those that wait for memory, or for their turn, do not call MPI
  const Rules& rules = operation.rules();
  const Wait asked = rules.settings().wait;
  const Wait wait = asked != Wait::automatic          ? asked
                    : rules.wait == WaitPolicy::yield ? Wait::yield
                                                      : Wait::spin;
  for (int idle = 1; !operation.advance(rules.timeout <= 0); ++idle) {
    Progress::relay();
    if (idle % drive_every == 0) operation.state()->waiter().drive_mpi();
    if (wait == Wait::yield) sched_yield();
    if (wait == Wait::sleep) std::this_thread::sleep_for(20us);
  }
}

}  // namespace tapa
