// The life of an operation up to the plan: order, tags, choice.
#include "comm/operation.hpp"

#include <array>
#include <utility>

#include "run/error.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {
constexpr int kAgreeTag = 5;  // of an operation's window, after those for numbers
}

Operation::~Operation() {
  end();
}

void Operation::begin(std::shared_ptr<CommState> state, Mode mode, const char* function, MPI_Comm comm) {
  state_ = std::move(state);
  mode_ = mode;
  function_ = function;
  comm_ = comm;
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
  judging_ = by_memory_ = asking_ = false;
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
  if (own_buffers_) parts->regions.leave(std::exchange(region_, {}), own_buffers_->round());
  own_buffers_.reset();
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
    return stage_ == Stage::finished || stage_ == Stage::idle || stage_ == Stage::mpi ||
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
  free_.give_up();
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
    stage_ = Stage::tags;
  } else {
    after_turn();
  }
  return true;
}

/// Ranks free persistent requests when they like, so what is free must be agreed. Rank 0 takes the memory.
void Operation::ask_free() {
  constexpr std::uint64_t any = ~std::uint64_t{0};
  std::uint64_t numbers[] = {0, any, any, any};
  int tag = 0;
  {
    const auto parts = state_->parts();
    tag_block_ = (parts->order.start_block() + tag_blocks_) % parts->order.blocks();
    tag = parts->order.free_tag();
    numbers[0] = parts->order.free_windows(tag_block_);
    if (state_->rank() == 0 && parts->regions.available() && region_.count == 0)
      region_ = parts->regions.take().value_or(ArenaRegion{});
  }
  if (state_->rank() == 0) {
    numbers[1] = region_.first;
    numbers[2] = region_.count;
    numbers[3] = region_.rounds;
  }
  constexpr std::array how{Combine::bit_and, Combine::bit_and, Combine::bit_and, Combine::bit_and};
  free_.start(state_->space(), tag, state_->rank(), state_->size(), numbers, how);
  asking_ = true;
}

bool Operation::step_tags() {
  if (!asking_) ask_free();
  if (!free_.test()) return false;
  asking_ = false;
  const auto result = free_.result();
  region_ = {static_cast<std::uint32_t>(result[1]), static_cast<std::uint32_t>(result[2]), result[3]};
  std::size_t blocks = 0;
  {
    const auto parts = state_->parts();
    blocks = parts->order.blocks();
    if (result[0] != 0) {
      tags_ = parts->order.take_persistent(tag_block_, result[0]);
      if (region_.count != 0) own_buffers_ = parts->regions.buffers(region_);
    }
  }
  if (result[0] != 0) {
    after_turn();
  } else if (++tag_blocks_ < blocks) {
    ask_free();
  } else {
    out_of_tags_ = true;
    if (region_.count != 0) state_->parts()->regions.leave(std::exchange(region_, {}), region_.rounds);
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
  const bool memory =
      mode_ == Mode::persistent ? own_buffers_ != nullptr : state_->parts()->regions.available();
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
  if (entry_->choice.algorithm == Algorithm::memory)
    buffers_ = own_buffers_ ? own_buffers_.get() : &state_->parts()->regions.common();
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
           : by_memory_
               ? parts->chooser.plan_for("memory", parts->chooser.decide(bytes, offer),
                                         Counts::uniform(state_->size(), bytes), std::span(&bytes, 1), bytes)
               : parts->uniform_plan(bytes, offer);
  return true;
}

/// Whether shared memory will carry the call, as far as that is known before it is chosen; alike on all
/// ranks, also where the two ends of a block differ, when that is looked for.
bool Operation::goes_through_memory() {
  const Offer can = offer();
  const auto parts = state_->parts();
  if (!can.memory || !parts->chooser.one_choice() || state_->mpi_is_forced() || known_) return false;
  const auto& plan = options_->settings().plan;
  if (plan || compares()) return !plan || plan->algorithm == Algorithm::memory;
  const std::size_t bytes = exchange_.uniform ? exchange_.uniform_bytes : parts->mean.shared().value_or(0);
  Autotuner::Running* const running =
      mode_ == Mode::blocking ? parts->competition(exchange_.uniform, bytes, can) : nullptr;
  if (running == nullptr || running->autotuning.complete())
    return parts->decide(exchange_.uniform, bytes, can).choice.algorithm == Algorithm::memory;
  return !running->autotuning.round_over() && running->autotuning.next().algorithm == Algorithm::memory;
}

/// The choice for blocks of different sizes; false: not yet.
bool Operation::choose(Offer offer) {
  const Settings& settings = options_->settings();
  const bool one_choice = state_->parts()->chooser.one_choice();
  if (!known_ && !mean_known_ && settings.enable && !one_choice) {
    std::size_t bytes = 0;
    for (const Block& block : exchange_.send) bytes += block.bytes;
    MeanBlock& mean = state_->parts()->mean;  // only the operation whose turn it is asks it; no lock is held
    const int tag = state_->parts()->order.mean_tag();
    if (!mean.agree(state_->space(), tag, state_->rank(), state_->size(), bytes, mean_)) return false;
    mean_known_ = true;
  }
  const std::size_t mean = exchange_tells_mean() ? state_->parts()->mean.shared().value_or(0) : mean_;
  std::optional<Decision> probe;
  if (!next_probe(false, mean, offer, probe)) return false;
  const auto parts = state_->parts();
  decision_ = probe        ? *probe
              : by_memory_ ? parts->chooser.decide(mean, offer)
                           : parts->decide(false, mean, offer);
  return true;
}

/// Whether calls over shared buffers tell all ranks the mean block on the side.
bool Operation::exchange_tells_mean() const {
  const auto parts = state_->parts();
  return parts->regions.available() && parts->chooser.one_choice() && !parts->chooser.forced();
}

/// The plan to probe, if any; false: the ranks are about to agree on what to probe next.
bool Operation::next_probe(bool uniform, std::size_t bytes, Offer offer, std::optional<Decision>& decision) {
  if (mode_ != Mode::blocking || (by_memory_ && compares())) return true;
  Autotuner::Running* const running = state_->parts()->competition(uniform, bytes, offer);
  const ProbeKey key = Autotuner::key_of(uniform, bytes, offer);
  if (running == nullptr) {
    const auto parts = state_->parts();
    if (Autotuner::Running* const decided = parts->tuner.decided_by(key)) decided->count();
    return true;
  }
  const bool over = running->autotuning.round_over();
  if (over && !Autotuner::agree(*running, state_->space(), tags_.first + kAgreeTag, state_->rank()))
    return false;
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
