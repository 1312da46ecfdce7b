// Which blocking calls can take the fast path, and which way they go there.
#include "comm/comm_state.hpp"
#include "run/mpi_call.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

/// Whether nothing is to be said of the next call of a plan.
bool CommState::told(const PlanEntry& entry) const {
  return !explains_ || rank_ != 0 || entry.explained.load(std::memory_order_relaxed);
}

/// What carries out a call of this size, when nothing has to be agreed before.
std::optional<Algorithm> CommState::fast_choice(std::size_t bytes, FastPath& way) {
  const Offer offer{true, parts_->regions.available(), false};
  if (offer.memory && parts_->chooser.sure(bytes) && !explains_) return Algorithm::memory;
  const ProbeKey key = Autotuner::key_of(true, bytes, offer);
  Autotuner::Running* const running = parts_->competition(true, bytes, offer);
  if (running == nullptr || running->autotuning.complete() || check() >= Check::counts) {
    way.counted = parts_->tuner.decided_by(key);
    if (check() >= Check::counts && parts_->chooser.one_choice() && offer.memory && !mpi_is_forced())
      return parts_->chooser.decide(bytes, offer)
          .choice.algorithm;  // ranks whose sizes differ go the same way
    const auto entry = parts_->uniform_plan(bytes, offer);
    return told(*entry) ? std::optional(entry->choice.algorithm) : std::nullopt;
  }
  if (running->autotuning.round_over()) return std::nullopt;
  if (running->autotuning.resting()) {
    way.counted = running;
  } else {
    way.tried = key;
  }
  return running->autotuning.next().algorithm;
}

CommState::FastPath CommState::claim_fast(std::size_t bytes, bool in_place, bool dense) {
  const std::lock_guard lock(mutex_);
  if (!fast_ || samples_ || !parts_->order.idle()) return {};
  FastPath way;
  if (bytes != fast_bytes_ || (fast_counted_ != nullptr && !fast_counted_->repeats())) {
    const auto algorithm = fast_choice(bytes, way);
    if (algorithm != Algorithm::memory && algorithm != Algorithm::mpi) return {};
    // Sizes are compared, and ranks that do not come are named, before MPI begins.
    if (algorithm == Algorithm::mpi && (check() >= Check::counts || timeout() > 0)) return {};
    fast_bytes_ = way.tried ? 0 : bytes;
    fast_mpi_ = algorithm == Algorithm::mpi;
    fast_counted_ = way.counted;
  }
  way.mpi = fast_mpi_;
  way.counted = fast_counted_;
  if (!way.mpi) {
    way.buffers = &parts_->regions.common();
    const bool fits = dense && ShmExchange::fits(*way.buffers, bytes);
    if ((in_place && !fits) || !way.buffers->claim()) return {};
  }
  parts_->order.pass_window();
  if (way.counted != nullptr) way.counted->count();
  return way;
}

CommState::FastPath CommState::claim_fast_blocks(bool may_use_mpi) {
  const std::lock_guard lock(mutex_);
  if (!always_memory_ || samples_ || explains_ || !parts_->order.idle()) return {};
  FastPath way = blocks_way(may_use_mpi);
  if (way.mpi && timeout() > 0) return {};  // ranks that do not come are named before MPI begins
  if (way.buffers != nullptr && !way.buffers->claim()) return {};
  if (way.buffers == nullptr && !way.mpi) return way;
  parts_->order.pass_window();
  if (way.counted != nullptr) way.counted->count();
  return way;
}

/// How blocks of different sizes travel in a node, when nothing has to be agreed before.
CommState::FastPath CommState::blocks_way(bool may_use_mpi) {
  const Offer offer{may_use_mpi, true, false};
  const std::size_t bytes = parts_->mean.shared().value_or(0);
  FastPath way;
  const ProbeKey key = Autotuner::key_of(false, bytes, offer);
  Autotuner::Running* running = parts_->competition(false, bytes, offer);
  if (check() >= Check::counts) running = nullptr;
  if (running != nullptr && running->autotuning.round_over()) return {};
  if (running == nullptr || running->autotuning.complete()) {
    way.counted = parts_->tuner.decided_by(key);
  } else if (running->autotuning.resting()) {
    way.counted = running;
  } else {
    way.tried = key;
  }
  if (running != nullptr && !running->autotuning.complete()) {
    way.mpi = running->autotuning.next().algorithm == Algorithm::mpi;
  } else if (!parts_->chooser.forced() && check() < Check::counts) {
    const Choice* const winner = parts_->tuner.fastest(false, bytes, offer, parts_->mean.due()).choice;
    way.mpi = winner != nullptr && winner->algorithm == Algorithm::mpi;
  }
  if (!way.mpi) way.buffers = &parts_->regions.common();
  return way;
}

void CommState::record_probe(const ProbeKey& key, double seconds, std::uint64_t sent) {
  parts()->tuner.record(key, seconds, sent);
}

}  // namespace tapa
