// What is decided for a call, from the parts of a communicator's state.
#include "comm/comm_state.hpp"
#include "run/mpi_call.hpp"

namespace tapa {

Decision CommParts::decide(bool uniform, std::size_t bytes, Offer offer) {
  if (!chooser.forced()) {
    // Now and then MPI's turn is left out, so that the shared buffers tell the mean block.
    const bool by_memory = !uniform && chooser.one_choice() && mean.due();
    if (auto winner = tuner.decided(uniform, bytes, offer, by_memory)) return *std::move(winner);
  }
  return chooser.decide(bytes, offer);
}

std::shared_ptr<PlanEntry> CommParts::uniform_plan(std::size_t bytes, Offer offer) {
  const std::size_t key[4] = {bytes, offer.mpi ? 1U : 0U, offer.memory ? 1U : 0U, offer.overlapped ? 1U : 0U};
  if (auto entry = chooser.cache().find("", key)) return entry;
  const Decision decision = decide(true, bytes, offer);
  return chooser.plan_for("", decision, Counts::uniform(chooser.ranks(), bytes), key, bytes);
}

Autotuner::Running* CommParts::competition(bool uniform, std::size_t bytes, Offer offer) {
  const ProbeKey key = Autotuner::key_of(uniform, bytes, offer);
  const bool mean_known = !chooser.one_choice() || mean.shared().has_value();
  return tuner.undecided(key, bytes, mean_known) ? &tuner.running(key, bytes, offer) : nullptr;
}

bool CommParts::leaves_unproven(std::optional<std::size_t> bytes, Offer offer) const {
  if (!tuner.limited() || chooser.forced()) return false;
  if (offer.memory && (bytes ? chooser.sure(*bytes) : chooser.one_choice())) return false;
  return !bytes || !countable(*bytes) || !tuner.beats_mpi(*bytes, offer);
}

// Decided at the call, not when its turn comes: what MPI carries out must begin in the program's own order.
bool CommState::leaves_nonblocking(std::optional<std::size_t> uniform_bytes) {
  if (!has_progress() || mpi_is_forced()) return true;
  // Nothing can be agreed now, and buffers may be in GPU memory.
  if (leaves_persistent()) return true;
  const auto locked = parts();
  const Offer offer{true, locked->regions.available(), true};
  if (locked->leaves_unproven(uniform_bytes, offer)) return true;
  if (!uniform_bytes || *uniform_bytes == 0 || !countable(*uniform_bytes)) return false;
  return locked->uniform_plan(*uniform_bytes, offer)->choice.algorithm == Algorithm::mpi;
}

}  // namespace tapa
