// The life of an operation up to the plan: order, tags, choice.
#include "comm/operation.hpp"

#include <utility>

#include "run/error.hpp"
#include "run/log.hpp"

namespace tapa {

Operation::~Operation() {
  end();
}

void Operation::begin(std::shared_ptr<CommState> state, Mode mode, const char* function) {
  state_ = std::move(state);
  mode_ = mode;
  function_ = function;
  stage_ = Stage::turn;
  options_ = state_->options();
  code_ = MPI_SUCCESS;
  message_.clear();
  seen_ = CallError::Seen::here;
  has_arguments_ = false;
  mpi_seconds_.reset();
  tried_.reset();
  mean_known_ = false;
  mean_ = 0;
  key_.clear();
  tags_ = {};
  channel_ = 0;
  out_of_tags_ = false;
  started_ = PMPI_Wtime();
  warned_ = 0;
  state_->parts()->order.enqueue(this);
  queued_ = true;
}

void Operation::end() {
  leave_queue();
  if (executor_) state_->give_executor(*entry_, std::move(executor_));
  if (state_) give_back_tags();
  buffers_ = nullptr;
  free_types();
  trim();
  known_.reset();
  entry_.reset();
  options_.reset();
  state_.reset();
  stage_ = Stage::idle;
}

void Operation::leave_queue() {
  if (std::exchange(queued_, false)) state_->parts()->order.leave(this);
}

void Operation::give_back_tags() {
  const auto parts = state_->parts();
  parts->order.give_back(std::exchange(tags_, {}));
  if (channel_ != 0) parts->channels.give_back(std::exchange(channel_, 0));
}

/// What one large call needed is not kept for all that follow.
void Operation::trim() {
  if (!options_ || staging_size_ <= options_->settings().keep) return;
  staging_.reset();
  staging_size_ = 0;
}

void Operation::take_arguments(const Arguments& arguments) {
  arguments_ = arguments;
  has_arguments_ = true;
  normalise(arguments, state_->size(), exchange_);
  if (mode_ == Mode::blocking) return;
  hold_types(exchange_.recv);
  if (exchange_.in_place) {
    exchange_.send = exchange_.recv;
  } else {
    hold_types(exchange_.send);
  }
}

void Operation::hold_types(std::vector<Block>& blocks) {
  MPI_Datatype last = MPI_DATATYPE_NULL;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  for (Block& block : blocks) {
    if (block.type == MPI_DATATYPE_NULL) continue;
    if (block.type != last) {
      last = block.type;
      // Not a duplicate: that would call the user's functions that copy attributes.
      check_mpi(PMPI_Type_contiguous(1, last, &copy), "MPI_Type_contiguous");
      types_.push_back(copy);
      check_mpi(PMPI_Type_commit(&copy), "MPI_Type_commit");
    }
    block.type = copy;
  }
}

void Operation::free_types() {
  for (MPI_Datatype& type : types_) PMPI_Type_free(&type);
  types_.clear();
}

void Operation::know_counts(std::shared_ptr<const Counts> counts, std::size_t mean,
                            std::vector<std::size_t> key) {
  known_ = std::move(counts);
  mean_ = mean;
  key_ = std::move(key);
}

bool Operation::advance(bool block) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const auto at_rest = [&] {
    return stage_ == Stage::finished || stage_ == Stage::idle ||
           (stage_ == Stage::ready && mode_ == Mode::persistent);
  };
  try {
    while (!at_rest() && step(block)) {
    }
    if (!at_rest()) watch();
  } catch (const CallError& e) {
    seen_ = e.seen();
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
  code_ = code;
  message_ = message;
  leave_queue();
  // Messages may still be in flight: their memory must stay, so what failed is given up, not freed.
  const bool in_flight = numbers_.pending() || sums_.pending() || (executor_ && !executor_->done());
  if (executor_ && !executor_->done()) static_cast<void>(executor_.release());
  numbers_.give_up();
  sums_.give_up();
  if (in_flight) tags_ = {};
  tell_probe();
  stage_ = Stage::finished;
}

bool Operation::step(bool block) {
  switch (stage_) {
    case Stage::turn:
      return step_turn();
    case Stage::tags:
      return step_tags();
    case Stage::arrivals:
      if (!numbers_.test()) return false;
      after_arrivals();
      return true;
    case Stage::check: {
      if (!numbers_.test()) return false;
      start_verdict();
      return true;
    }
    case Stage::verdict:
      return step_verdict();
    case Stage::plan:
      return step_plan();
    case Stage::counts: {
      if (!numbers_.test()) return false;
      plan_from_counts();
      return true;
    }
    case Stage::ready:
    case Stage::launch:
      return launch();
    case Stage::running:
      return step_running(block);
    case Stage::sums: {
      if (!sums_.test()) return false;
      check_sums();
      finish();
      return true;
    }
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
  if (mode_ == Mode::persistent) {
    tag_blocks_ = 0;
    ask_free();
    stage_ = Stage::tags;
  } else {
    after_turn();
  }
  return true;
}

/// Ranks free persistent requests when they like, so what is free must be agreed.
void Operation::ask_free() {
  {
    const auto parts = state_->parts();
    tag_block_ = (parts->order.start_block() + tag_blocks_) % parts->order.blocks();
    free_ = {parts->order.free_windows(tag_block_), parts->channels.free()};
  }
  static_assert(sizeof free_ == 2 * sizeof(std::uint64_t));
  check_mpi(PMPI_Iallreduce(MPI_IN_PLACE, &free_, 2, MPI_UINT64_T, MPI_BAND, state_->comm(), &request_),
            "MPI_Iallreduce");
}

bool Operation::step_tags() {
  int complete = 0;
  check_mpi(PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "MPI_Iallreduce");
  if (complete == 0) return false;
  std::size_t blocks = 0;
  {
    const auto parts = state_->parts();
    blocks = parts->order.blocks();
    if (free_.windows != 0) {
      tags_ = parts->order.take_persistent(tag_block_, free_.windows);
      if (free_.channels != 0) channel_ = parts->channels.take(free_.channels);
    }
  }
  if (free_.windows != 0) {
    after_turn();
  } else if (++tag_blocks_ < blocks) {
    ask_free();
  } else {
    out_of_tags_ = true;
    throw CallError(MPI_ERR_OTHER, "no message tags are left: " + std::to_string(CallOrder::kBlock * blocks) +
                                       " persistent requests of this communicator live, expected fewer");
  }
  return true;
}

/// What this call can use; alike on all ranks.
Offer Operation::offer() const {
  // Large counts may be more than MPI can be given. Where MPI is the choice for nonblocking calls they have
  // not come here.
  const bool countable = exchange_.uniform || !arguments_.large || state_->mpi_is_forced();
  const bool memory = mode_ == Mode::persistent ? channel_ != 0 : state_->parts()->channels.available();
  return {has_arguments_ && mode_ == Mode::blocking && countable, memory, mode_ != Mode::blocking};
}

bool Operation::step_plan() {
  if (exchange_.uniform) {
    if (exchange_.uniform_bytes == 0) {
      finish();
      return true;
    }
    if (!choose_uniform(offer())) return false;
  } else {
    if (!choose(offer())) return false;
    if (known_) {
      entry_ = state_->parts()->chooser.plan_for(decision_.text, decision_, *known_, key_, mean_);
    } else if (decision_.choice.algorithm == Algorithm::memory ||
               decision_.choice.algorithm == Algorithm::mpi) {
      // In shared buffers blocks tell their sizes themselves; MPI has its own way.
      entry_ = state_->parts()->chooser.plan_for(decision_.text, decision_,
                                                 Counts::uniform(state_->size(), mean_), {}, mean_);
    } else {
      start_counts();
      return true;
    }
  }
  stage_ = Stage::ready;
  if (entry_->choice.algorithm == Algorithm::memory) buffers_ = &state_->parts()->channels.buffers(channel_);
  end_preparation();
  return true;
}

/// A persistent operation takes all that options decide now: they may be others when it is started.
void Operation::end_preparation() {
  if (mode_ != Mode::persistent) return;
  if (entry_->plan) executor_ = state_->take_executor(*entry_);
  leave_queue();
}

/// The plan for blocks of one size; false: not yet.
bool Operation::choose_uniform(Offer offer) {
  const std::size_t bytes = exchange_.uniform_bytes;
  std::optional<Decision> probe;
  if (!next_probe(true, bytes, offer, probe)) return false;
  const auto parts = state_->parts();
  entry_ = probe ? parts->chooser.plan_for(probe->text, *probe, Counts::uniform(state_->size(), bytes),
                                           std::span(&bytes, 1), bytes)
                 : parts->uniform_plan(bytes, offer);
  return true;
}

/// The choice for blocks of different sizes; false: not yet.
bool Operation::choose(Offer offer) {
  const Settings& settings = options_->settings();
  const bool one_choice = state_->parts()->chooser.one_choice();
  if (!known_ && !mean_known_ && settings.enable && (!one_choice || settings.report == Reporting::on)) {
    std::size_t bytes = 0;
    for (const Block& block : exchange_.send) bytes += block.bytes;
    MeanBlock& mean = state_->parts()->mean;  // only the operation whose turn it is asks it; no lock is held
    if (!mean.agree(state_->comm(), state_->size(), bytes, mean_)) return false;
    mean_known_ = true;
  }
  const std::size_t mean = exchange_tells_mean() ? state_->parts()->mean.shared().value_or(0) : mean_;
  std::optional<Decision> probe;
  if (!next_probe(false, mean, offer, probe)) return false;
  decision_ = probe ? *probe : state_->parts()->decide(false, mean, offer);
  return true;
}

/// Whether calls over shared buffers tell all ranks the mean block on the side.
bool Operation::exchange_tells_mean() const {
  const auto parts = state_->parts();
  return parts->channels.available() && parts->chooser.one_choice() && !parts->chooser.forced();
}

/// The plan to probe, if any; false: the ranks are about to agree on what to probe next.
bool Operation::next_probe(bool uniform, std::size_t bytes, Offer offer, std::optional<Decision>& decision) {
  if (mode_ != Mode::blocking) return true;
  Autotuner::Running* const running = state_->parts()->competition(uniform, bytes, offer);
  const ProbeKey key = Autotuner::key_of(uniform, bytes, offer);
  if (running == nullptr) {
    const auto parts = state_->parts();
    if (Autotuner::Running* const decided = parts->tuner.decided_by(key)) decided->count();
    return true;
  }
  const bool over = running->autotuning.round_over();
  if (over && !Autotuner::agree(*running, uniform, state_->comm())) return false;
  const auto parts = state_->parts();
  if (over) static_cast<void>(parts->tuner.end_round(key, *running));
  if (running->autotuning.complete()) {
    if (over && state_->rank() == 0 && running->autotuning.choices().size() > 1)
      log_info(outcome(key, running->autotuning));
    parts->chooser.cache().clear();
    running->count();
    return true;
  }
  const Choice& choice = running->autotuning.next();
  if (running->autotuning.resting()) {
    decision = Decision{choice, to_string(choice), "the fastest so far", 0};
    running->count();
    return true;
  }
  tried_ = key;
  decision = Decision{choice, to_string(choice), kProbed, 0};
  started_ = PMPI_Wtime();  // agreeing is no part of what is probed
  return true;
}

}  // namespace tapa
