// TAPA_ADAPT: the plans that compete on a communicator.
#include <cstdio>

#include "api/comm_state.hpp"
#include "api/error.hpp"

namespace tapa {

namespace {

// Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
constexpr std::size_t kMostPlans = 3;

std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

}  // namespace

/// Whether a size is still to be decided.
bool CommState::tries(const TrialKey& key) const {
  const Settings& settings = options_->settings();
  if (!settings.adapt || !settings.enable || settings.plan || !measurements_.empty() || size_ < 2)
    return false;
  const auto found = trials_.find(key);
  return found == trials_.end() || !found->second->winner;
}

std::optional<Decision> CommState::decided(const TrialKey& key, Offer offer) const {
  const auto found = trials_.find(key);
  if (found == trials_.end() || !found->second->winner) return std::nullopt;
  const Decision& winner = *found->second->winner;
  const Algorithm algorithm = winner.choice.algorithm;
  if ((algorithm == Algorithm::mpi && !offer.mpi) || (algorithm == Algorithm::memory && !offer.memory))
    return std::nullopt;
  if (offer.beside && goes_in_turns(winner.choice)) return std::nullopt;
  return winner;
}

CommState::RunningTrial& CommState::trial_of(const TrialKey& key, std::size_t bytes, Offer offer) {
  std::unique_ptr<RunningTrial>& trial = trials_[key];
  if (!trial) {
    std::vector<Choice> choices;
    for (const Candidate& candidate : rank_candidates(*topology_, rates_, {}, bytes, {false, offer.memory})) {
      if (choices.size() < kMostPlans) choices.push_back(candidate.choice);
    }
    if (offer.mpi) {
      choices.emplace_back();
      choices.back().algorithm = Algorithm::mpi;
    }
    trial = std::make_unique<RunningTrial>(std::move(choices));
  }
  return *trial;
}

// Only the operation whose turn it is gets here, and no lock is held while MPI is called.
std::optional<Decision> CommState::try_plan(bool uniform, std::size_t bytes, Offer offer, bool& waits) {
  waits = false;
  const TrialKey key{uniform, size_class_of(bytes)};
  RunningTrial* running = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!tries(key)) return std::nullopt;
    running = &trial_of(key, bytes, offer);
    if (!running->trial.complete()) {
      const Choice& choice = running->trial.next();
      return Decision{choice, to_string(choice), "being tried", 0};
    }
  }
  const auto seconds = running->trial.seconds();
  if (!running->agreeing) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE,
                             MPI_MAX, agreement_.comm, &running->request),
              "MPI_Iallreduce");
    running->agreeing = true;
  }
  int complete = 0;
  check_mpi(MPI_Test(&running->request, &complete, MPI_STATUS_IGNORE), "MPI_Iallreduce");
  if (complete == 0) {
    waits = true;
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const std::size_t best = running->trial.decide();
  const Choice& choice = running->trial.choices()[best];
  const double median = running->trial.median(best);
  running->winner = Decision{choice, to_string(choice),
                             "the fastest of " + std::to_string(running->trial.choices().size()) +
                                 " plans that were tried, " + in_microseconds(median),
                             median};
  plans_.clear();
  return std::nullopt;
}

void CommState::record_trial(bool uniform, std::size_t bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find({uniform, size_class_of(bytes)});
  if (found != trials_.end() && !found->second->trial.complete()) found->second->trial.record(seconds);
}

void CommState::end_trials() {
  for (const auto& [key, running] : trials_) {
    if (running->request != MPI_REQUEST_NULL) MPI_Wait(&running->request, MPI_STATUS_IGNORE);
  }
  trials_.clear();
}

}  // namespace tapa
