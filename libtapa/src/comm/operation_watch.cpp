// TAPA_TIMEOUT: what an operation says that lasts long.
#include "comm/operation.hpp"
#include "run/unfinished.hpp"

namespace tapa {

void Operation::watch() {
  if (timeout() <= 0) return;
  const double age = PMPI_Wtime() - started_;
  if (age < (warned_ > 0 ? 2 * warned_ : timeout())) return;
  warned_ = age;
  tell_unfinished(function_, age, waits_for());
}

double Operation::timeout() const {
  return options_->settings().timeout;
}

std::string Operation::waits_for() const {
  switch (stage_) {
    case Stage::turn:
      return "waits for an earlier operation on the communicator to begin";
    case Stage::tags:
      return "waits for the other ranks to make their persistent requests";
    case Stage::arrivals:
      return "waits for " + ranks_text(numbers_.missing(8)) + " to make the call";
    case Stage::check:
    case Stage::verdict:
    case Stage::counts:
      return "waits for the counts of " + ranks_text(numbers_.missing(8));
    case Stage::sums:
      return "waits for the checksums of " + ranks_text(sums_.missing(8));
    case Stage::plan:
      return "waits for the agreed mean size";
    default:
      break;
  }
  if (buffers_ != nullptr) return tapa::waits_for(shm_exchange_);
  if (!executor_) return "waits for MPI";
  std::string text = "waits for";
  const auto topology = state_->topology();
  for (const Waiting& w : executor_->waiting(8)) {
    const auto level = static_cast<std::size_t>(topology->level_of(state_->rank(), w.peer));
    const auto phase = static_cast<std::size_t>(w.phase);
    text += (text.back() == 'r' ? " rank " : "; rank ") + std::to_string(w.peer) +
            (w.is_send ? " to take " : " to send ") + std::to_string(w.bytes) + " bytes, level " +
            topology->levels[level].name;
    if (phase < entry_->phases.size()) text += ", phase \"" + entry_->phases[phase].name + "\"";
  }
  return text;
}

}  // namespace tapa
