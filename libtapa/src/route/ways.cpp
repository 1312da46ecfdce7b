#include "route/ways.hpp"

#include "run/mpi_call.hpp"

namespace tapa {

Way way_of(CommParts& parts, bool uniform, std::size_t bytes, Offer offer) {
  const ProbeKey key = Autotuner::key_of(uniform, bytes, offer);
  const bool mean_known = !parts.chooser.one_choice() || parts.mean.shared().has_value();
  Competition* const running =
      parts.tuner.undecided(key, bytes, mean_known) ? &parts.tuner.running(key, bytes, offer) : nullptr;
  if (running == nullptr || running->now().complete())
    return {Way::Kind::settled, key, parts.tuner.decided_by(key)};
  if (running->now().round_over()) return {Way::Kind::agree, key, running};
  return {running->now().resting() ? Way::Kind::resting : Way::Kind::probe, key, running};
}

Decision decide(CommParts& parts, bool uniform, std::size_t bytes, Offer offer) {
  if (!parts.chooser.forced()) {
    // Now and then MPI's turn is left out, so that the shared buffers tell the mean block.
    const bool by_memory = !uniform && parts.chooser.one_choice() && parts.mean.due();
    if (auto winner = parts.tuner.decided(uniform, bytes, offer, by_memory)) return *std::move(winner);
  }
  return parts.chooser.decide(bytes, offer);
}

std::shared_ptr<PlanEntry> uniform_plan(CommParts& parts, std::size_t bytes, Offer offer) {
  const std::size_t key[4] = {bytes, offer.mpi ? 1U : 0U, offer.memory ? 1U : 0U, offer.overlapped ? 1U : 0U};
  if (auto entry = parts.chooser.cache().find("", key)) return entry;
  const Decision decision = decide(parts, true, bytes, offer);
  return parts.chooser.plan_for("", decision, Counts::uniform(parts.chooser.ranks(), bytes), key, bytes);
}

bool edges_go_through_memory(const CommParts& parts, bool memory) {
  const auto& plan = parts.chooser.options()->settings().plan;
  return memory && parts.chooser.one_choice() && (!plan || plan->algorithm == Algorithm::memory);
}

bool leaves_unproven(const CommParts& parts, std::optional<std::size_t> bytes, Offer offer) {
  if (!parts.tuner.limited() || parts.chooser.forced()) return false;
  if (offer.memory && parts.chooser.one_choice()) {
    if (!bytes || parts.chooser.sure(*bytes)) return false;
    if (parts.chooser.memory_first() && !parts.tuner.mpi_has_won(*bytes)) return false;
  }
  return !bytes || !countable(*bytes) || !parts.tuner.beats_mpi(*bytes, offer);
}

}  // namespace tapa
