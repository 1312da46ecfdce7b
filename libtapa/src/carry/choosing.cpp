#include "carry/choosing.hpp"

#include <utility>

#include "carry/mpi_sample.hpp"
#include "comm/names.hpp"
#include "run/error.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {

/// Whether calls over shared buffers tell all ranks the mean block on the side.
bool exchange_tells_mean(const CommParts& parts) {
  return parts.regions.available() && parts.chooser.one_choice() && !parts.chooser.forced();
}

bool has_no_messages(const Choice& choice) {
  return choice.algorithm == Algorithm::memory || choice.algorithm == Algorithm::mpi;
}

}  // namespace

Offer Call::offer() const {
  // Large counts may be more than MPI can be given. Where MPI is the choice for nonblocking calls they have
  // not come here.
  const bool countable = exchange.uniform || !large || rules->mpi_is_forced;
  const bool memory = mode == Mode::persistent ? own_memory : state->parts()->regions.available();
  return {has_arguments && mode == Mode::blocking && countable, memory, mode != Mode::blocking};
}

void Choosing::begin() {
  known_.reset();
  key_.clear();
  mean_ = 0;
  mean_known_ = by_memory_ = false;
  probed_.reset();
  tried_.reset();
  entry_.reset();
}

void Choosing::know_counts(std::shared_ptr<const Counts> counts, std::size_t mean,
                           std::vector<std::size_t> key) {
  known_ = std::move(counts);
  mean_ = mean;
  key_ = std::move(key);
}

bool Choosing::goes_through_memory(const Call& c) {
  const auto look = [&] {
    const Offer can = c.offer();
    const auto parts = c.state->parts();
    if (!can.memory || !parts->chooser.one_choice() || c.rules->mpi_is_forced || known_) return false;
    const auto& plan = c.rules->settings().plan;
    if (plan || c.rules->compares()) return !plan || plan->algorithm == Algorithm::memory;
    const std::size_t bytes =
        c.exchange.uniform ? c.exchange.uniform_bytes : parts->mean.shared().value_or(0);
    if (c.mode != Mode::blocking)
      return decide(*parts, c.exchange.uniform, bytes, can).choice.algorithm == Algorithm::memory;
    const Way way = way_of(*parts, c.exchange.uniform, bytes, can);
    if (way.kind == Way::Kind::settled)
      return decide(*parts, c.exchange.uniform, bytes, can).choice.algorithm == Algorithm::memory;
    return way.kind != Way::Kind::agree && way.next().algorithm == Algorithm::memory;
  };
  return by_memory_ = look();
}

/// The mean of blocks of different sizes; false: not yet.
bool Choosing::learn_mean(const Call& c) {
  if (known_) return true;
  if (!mean_known_ && c.rules->settings().enable && !c.state->parts()->chooser.one_choice()) {
    MeanBlock& mean = c.state->parts()->mean;  // only the operation whose turn it is asks it; no lock is held
    const int tag = c.state->parts()->order.mean_tag();
    if (!mean.agree(c.state->space(), tag, c.state->rank(), c.state->size(), total_bytes(c.exchange.send),
                    mean_))
      return false;
    mean_known_ = true;
  }
  return true;
}

/// What a competition says of the call; false: the ranks are about to agree on what to probe next.
bool Choosing::next_probe(const Call& c, int tag, std::size_t bytes) {
  if (c.mode != Mode::blocking || (by_memory_ && c.rules->compares())) return true;
  const Offer offer = c.offer();
  Way way = way_of(*c.state->parts(), c.exchange.uniform, bytes, offer);
  if (way.kind == Way::Kind::agree) {
    if (!Autotuner::agree(*way.running, c.state->space(), tag, c.state->rank())) return false;
    const auto parts = c.state->parts();
    parts->tuner.end_round(way.key, *way.running, bytes, offer);
    const Autotuning& tuned = way.running->autotuning;
    if (tuned.complete()) {
      if (c.state->rank() == 0 && tuned.choices().size() > 1) log_info(outcome(way.key, tuned));
      parts->chooser.cache().clear();
      way.kind = Way::Kind::settled;
    } else {
      way.kind = tuned.resting() ? Way::Kind::resting : Way::Kind::probe;
    }
  }
  if (way.kind == Way::Kind::probe) {
    tried_ = way.key;
    probed_ = Decision{way.next(), to_string(way.next()), kProbed, 0};
    return true;
  }
  const auto parts = c.state->parts();
  if (way.running != nullptr) way.running->count();
  if (way.kind == Way::Kind::resting)
    probed_ = Decision{way.next(), to_string(way.next()), "the fastest so far", 0};
  return true;
}

Choosing::Step Choosing::step(const Call& c, int tag) {
  if (c.exchange.uniform) {
    if (!next_probe(c, tag, c.exchange.uniform_bytes)) return Step::wait;
    plan_uniform(c);
    return Step::chosen;
  }
  if (!learn_mean(c)) return Step::wait;
  std::size_t mean = mean_;
  {
    const auto parts = c.state->parts();
    if (exchange_tells_mean(*parts)) mean = parts->mean.shared().value_or(0);
  }
  if (!next_probe(c, tag, mean)) return Step::wait;
  const Offer offer = c.offer();
  {
    const auto parts = c.state->parts();
    decision_ = probed_      ? *probed_
                : by_memory_ ? parts->chooser.decide(mean, offer)
                             : decide(*parts, false, mean, offer);
  }
  return plan_blocks(c);
}

void Choosing::plan_uniform(const Call& c) {
  const std::size_t bytes = c.exchange.uniform_bytes;
  const Offer offer = c.offer();
  const auto parts = c.state->parts();
  const auto plan = [&](std::string_view name, const Decision& decision) {
    entry_ = parts->chooser.plan_for(name, decision, Counts::uniform(c.state->size(), bytes),
                                     std::span(&bytes, 1), bytes);
  };
  if (probed_)
    plan(probed_->text, *probed_);
  else if (by_memory_)
    plan("memory", parts->chooser.decide(bytes, offer));
  else
    entry_ = uniform_plan(*parts, bytes, offer);
}

Choosing::Step Choosing::plan_blocks(const Call& c) {
  if (known_) {
    plan(c, *known_, key_);
  } else if (has_no_messages(decision_.choice)) {
    // In shared buffers blocks tell their sizes themselves; MPI has its own way.
    plan(c, Counts::uniform(c.state->size(), mean_), {});
  } else {
    return Step::counts;
  }
  return Step::chosen;
}

void Choosing::plan(const Call& c, const Counts& counts, const std::vector<std::size_t>& key) {
  entry_ = c.state->parts()->chooser.plan_for(decision_.text, decision_, counts, key, mean_);
}

void Choosing::end(const Call& c, double seconds, std::optional<std::uint64_t> memory) {
  const auto parts = c.state->parts();
  if (entry_ && c.mode == Mode::blocking && !c.exchange.uniform && exchange_tells_mean(*parts)) {
    if (memory) parts->mean.note(memory, c.state->size());
    if (entry_->choice.algorithm == Algorithm::mpi) parts->mean.note(std::nullopt, c.state->size());
  }
  if (tried_)
    parts->tuner.record(*std::exchange(tried_, std::nullopt), seconds, total_bytes(c.exchange.send));
}

}  // namespace tapa
