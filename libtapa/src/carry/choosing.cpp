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

Offer Subject::offer() const {
  // Large counts may be more than MPI can be given. Where MPI is the choice for nonblocking calls they have
  // not come here.
  const bool countable = exchange.uniform || !large || rules.mpi_is_forced;
  const bool memory = mode == Mode::persistent ? own_memory : state.parts()->regions.available();
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

bool Choosing::goes_through_memory(const Subject& s) {
  const auto look = [&] {
    const Offer can = s.offer();
    const auto parts = s.state.parts();
    if (!can.memory || !parts->chooser.one_choice() || s.rules.mpi_is_forced || known_) return false;
    const auto& plan = s.rules.settings().plan;
    if (plan || s.rules.compares()) return !plan || plan->algorithm == Algorithm::memory;
    const std::size_t bytes =
        s.exchange.uniform ? s.exchange.uniform_bytes : parts->mean.shared().value_or(0);
    if (s.mode != Mode::blocking)
      return decide(*parts, s.exchange.uniform, bytes, can).choice.algorithm == Algorithm::memory;
    const Way way = way_of(*parts, s.exchange.uniform, bytes, can);
    if (way.kind == Way::Kind::settled)
      return decide(*parts, s.exchange.uniform, bytes, can).choice.algorithm == Algorithm::memory;
    return way.kind != Way::Kind::agree && way.next().algorithm == Algorithm::memory;
  };
  return by_memory_ = look();
}

/// The mean of blocks of different sizes; false: not yet.
bool Choosing::learn_mean(const Subject& s) {
  if (known_) return true;
  if (!mean_known_ && s.rules.settings().enable && !s.state.parts()->chooser.one_choice()) {
    MeanBlock& mean = s.state.parts()->mean;  // only the operation whose turn it is asks it; no lock is held
    const int tag = s.state.parts()->order.mean_tag();
    if (!mean.agree(s.state.space(), tag, s.state.rank(), s.state.size(), total_bytes(s.exchange.send),
                    mean_))
      return false;
    mean_known_ = true;
  }
  return true;
}

/// What a competition says of the call; false: the ranks are about to agree on what to probe next.
bool Choosing::next_probe(const Subject& s, int tag, std::size_t bytes) {
  if (s.mode != Mode::blocking || (by_memory_ && s.rules.compares())) return true;
  const Offer offer = s.offer();
  Way way = way_of(*s.state.parts(), s.exchange.uniform, bytes, offer);
  if (way.kind == Way::Kind::agree) {
    if (!Autotuner::agree(*way.running, s.state.space(), tag, s.state.rank())) return false;
    const auto parts = s.state.parts();
    parts->tuner.end_round(way.key, *way.running, bytes, offer);
    const Autotuning& tuned = way.running->autotuning;
    if (tuned.complete()) {
      if (s.state.rank() == 0 && tuned.choices().size() > 1) log_info(outcome(way.key, tuned));
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
  const auto parts = s.state.parts();
  if (way.running != nullptr) way.running->count();
  if (way.kind == Way::Kind::resting)
    probed_ = Decision{way.next(), to_string(way.next()), "the fastest so far", 0};
  return true;
}

Choosing::Step Choosing::step(const Subject& s, int tag) {
  if (s.exchange.uniform) {
    if (!next_probe(s, tag, s.exchange.uniform_bytes)) return Step::wait;
    plan_uniform(s);
    return Step::chosen;
  }
  if (!learn_mean(s)) return Step::wait;
  std::size_t mean = mean_;
  {
    const auto parts = s.state.parts();
    if (exchange_tells_mean(*parts)) mean = parts->mean.shared().value_or(0);
  }
  if (!next_probe(s, tag, mean)) return Step::wait;
  const Offer offer = s.offer();
  {
    const auto parts = s.state.parts();
    decision_ = probed_      ? *probed_
                : by_memory_ ? parts->chooser.decide(mean, offer)
                             : decide(*parts, false, mean, offer);
  }
  return plan_blocks(s);
}

void Choosing::plan_uniform(const Subject& s) {
  const std::size_t bytes = s.exchange.uniform_bytes;
  const Offer offer = s.offer();
  const auto parts = s.state.parts();
  const auto plan = [&](std::string_view name, const Decision& decision) {
    entry_ = parts->chooser.plan_for(name, decision, Counts::uniform(s.state.size(), bytes),
                                     std::span(&bytes, 1), bytes);
  };
  if (probed_)
    plan(probed_->text, *probed_);
  else if (by_memory_)
    plan("memory", parts->chooser.decide(bytes, offer));
  else
    entry_ = uniform_plan(*parts, bytes, offer);
}

Choosing::Step Choosing::plan_blocks(const Subject& s) {
  if (known_) {
    plan(s, *known_, key_);
  } else if (has_no_messages(decision_.choice)) {
    // In shared buffers blocks tell their sizes themselves; MPI has its own way.
    plan(s, Counts::uniform(s.state.size(), mean_), {});
  } else {
    return Step::counts;
  }
  return Step::chosen;
}

void Choosing::plan(const Subject& s, const Counts& counts, const std::vector<std::size_t>& key) {
  entry_ = s.state.parts()->chooser.plan_for(decision_.text, decision_, counts, key, mean_);
}

void Choosing::end(const Subject& s, double seconds, std::optional<std::uint64_t> memory) {
  const auto parts = s.state.parts();
  if (entry_ && s.mode == Mode::blocking && !s.exchange.uniform && exchange_tells_mean(*parts)) {
    if (memory) parts->mean.note(memory, s.state.size());
    if (entry_->choice.algorithm == Algorithm::mpi) parts->mean.note(std::nullopt, s.state.size());
  }
  if (tried_)
    parts->tuner.record(*std::exchange(tried_, std::nullopt), seconds, total_bytes(s.exchange.send));
}

}  // namespace tapa
