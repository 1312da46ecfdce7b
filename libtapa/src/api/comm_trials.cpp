// TAPA_ADAPT: the plans that compete on a communicator.
#include <algorithm>
#include <cstdio>

#include "api/comm_state.hpp"
#include "api/error.hpp"
#include "api/log.hpp"
#include "api/mpi_call.hpp"

namespace tapa {

namespace {

// Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
constexpr std::size_t kMostPlans = 4;

// Sizes that are farther apart tell little of each other: what takes the time is another thing.
constexpr double kNearby = 16;

// Calls that MPI carries out tell nobody the mean block; every so many go over the board, which does.
constexpr unsigned kTellMeanEvery = 16;

std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

/// What a trial has found, for the log: the best first.
std::string outcome(const TrialKey& key, const Trial& trial) {
  std::string text = (key.uniform ? "equal blocks of " : "blocks of a mean of ") +
                     std::to_string(key.size_class) + " bytes and more were tried:";
  for (const std::size_t i : trial.ranking()) {
    text += (text.back() == ':' ? " " : ", ") + to_string(trial.choices()[i]) + " " +
            in_microseconds(trial.median(i)) + " in " + std::to_string(trial.calls_of(i)) + " calls";
  }
  return text;
}

Choice only_mpi() {
  Choice choice;
  choice.algorithm = Algorithm::mpi;
  return choice;
}

bool allowed(const Choice& choice, Offer offer) {
  // MPI's nonblocking all-to-all is another one than that which was tried.
  if (choice.algorithm == Algorithm::mpi) return offer.mpi && !offer.beside;
  if (choice.algorithm == Algorithm::memory) return offer.memory;
  return !offer.beside || !goes_in_turns(choice);
}

}  // namespace

TrialKey CommState::key_of(bool uniform, std::size_t bytes, Offer offer) {
  return {uniform, offer.mpi && countable(bytes), size_class_of(bytes)};
}

const CommState::RunningTrial* CommState::ended_trial(const TrialKey& key) const {
  const auto found = trials_.find(key);
  return found != trials_.end() && found->second->trial.complete() ? found->second.get() : nullptr;
}

/// Whether a size is still to be decided.
bool CommState::tries(const TrialKey& key, std::size_t bytes) const {
  const Settings& settings = options_->settings();
  if (!settings.adapt || !settings.enable || settings.plan || size_ < 2) return false;
  if (covered(measurements_, bytes)) return false;
  if (!key.uniform && one_choice_locked() && !board_mean_) return false;          // nothing to go by yet
  if (ended_trial({key.uniform, true, key.size_class}) != nullptr) return false;  // with MPI or without
  return key.mpi || ended_trial(key) == nullptr;
}

std::optional<Decision> CommState::decided(bool uniform, std::size_t bytes, Offer offer) const {
  const RunningTrial* ended = ended_trial({uniform, true, size_class_of(bytes)});
  if (ended == nullptr) ended = ended_trial({uniform, false, size_class_of(bytes)});
  if (ended == nullptr) return std::nullopt;
  const Trial& trial = ended->trial;
  for (const std::size_t i : trial.ranking()) {
    const Choice& choice = trial.choices()[i];
    if (!allowed(choice, offer)) continue;
    // Now and then MPI's turn is left out, so that the board tells the mean block.
    const bool by_board = !uniform && one_choice_locked() && mpi_blocks_ + 1 >= kTellMeanEvery;
    if (choice.algorithm == Algorithm::mpi && by_board) continue;
    const double median = trial.median(i);
    return Decision{choice, to_string(choice),
                    "the fastest of " + std::to_string(trial.choices().size()) + " plans that were tried, " +
                        in_microseconds(median),
                    median};
  }
  return std::nullopt;
}

/// What the trial of the nearest size, at most kNearby times larger or smaller, has found.
std::vector<Tried> CommState::tried_near(const TrialKey& key, Offer offer) const {
  const auto ratio = [&](std::size_t size_class) {
    const double larger = static_cast<double>(std::max(size_class, key.size_class)) + 1;
    return larger / (static_cast<double>(std::min(size_class, key.size_class)) + 1);
  };
  const std::pair<const TrialKey, std::unique_ptr<RunningTrial>>* nearest = nullptr;
  for (const auto& entry : trials_) {
    if (entry.first.uniform != key.uniform || !entry.second || !entry.second->trial.complete()) continue;
    const double far = ratio(entry.first.size_class);
    if (far <= kNearby && (nearest == nullptr || far < ratio(nearest->first.size_class))) nearest = &entry;
  }
  if (nearest == nullptr) return {};
  const Trial& trial = nearest->second->trial;
  const std::vector<Candidate> then = ranked_locked(nearest->first.size_class, {false, offer.memory});
  std::vector<Tried> tried;
  for (std::size_t i = 0; i < trial.choices().size(); ++i) {
    const auto found =
        std::ranges::find(then, trial.choices()[i], &Candidate::choice);  // MPI is none of them
    if (found != then.end()) tried.push_back({found->choice, found->seconds, trial.least(i)});
  }
  return tried;
}

CommState::RunningTrial& CommState::trial_of(const TrialKey& key, std::size_t bytes, Offer offer) {
  std::unique_ptr<RunningTrial>& trial = trials_[key];
  if (trial) return *trial;
  // Inside a node there are the board and MPI: messages of ours would be MPI's too.
  const std::size_t most = one_choice_locked() ? 1 : kMostPlans;
  std::vector<Candidate> ranked = ranked_locked(bytes, {false, offer.memory});
  if (!one_choice_locked()) ranked = corrected(std::move(ranked), tried_near(key, offer));
  std::vector<Choice> choices = plausible(ranked, most);
  // Second, so that a few calls suffice to see whether MPI is faster.
  if (key.mpi) choices.insert(choices.begin() + 1, only_mpi());
  if (key.uniform) {
    trial.reset(new RunningTrial{Trial(std::move(choices))});
  } else {
    const auto blocks = static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_);
    const std::uint64_t smallest = key.size_class * blocks;
    const std::uint64_t largest = (std::max<std::uint64_t>(2 * key.size_class, 1)) * blocks - 1;
    trial.reset(new RunningTrial{Trial(std::move(choices), smallest, largest)});
  }
  return *trial;
}

/// Whether all ranks know the slowest rank's times of a lap. No lock is held.
bool CommState::agree_on_lap(RunningTrial& running, bool uniform) {
  const auto seconds = running.trial.seconds();
  const auto bytes = running.trial.bytes();
  if (!running.agreeing) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE,
                             MPI_MAX, agreement_.comm, &running.requests[0]),
              "MPI_Iallreduce");
    if (!uniform)
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, bytes.data(), static_cast<int>(bytes.size()), MPI_UINT64_T,
                               MPI_SUM, agreement_.comm, &running.requests[1]),
                "MPI_Iallreduce");
    running.agreeing = true;
  }
  int complete = 0;
  check_mpi(MPI_Testall(2, running.requests.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Iallreduce");
  if (complete == 0) return false;
  running.agreeing = false;
  return true;
}

// Only the operation whose turn it is gets here, and no lock is held while MPI is called.
std::optional<TrialCall> CommState::try_plan(bool uniform, std::size_t bytes, Offer offer, bool& waits) {
  waits = false;
  const TrialKey key = key_of(uniform, bytes, offer);
  RunningTrial* running = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!tries(key, bytes)) return std::nullopt;
    running = &trial_of(key, bytes, offer);
  }
  if (running->trial.lap_over()) {
    waits = !agree_on_lap(*running, uniform);
    if (waits) return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  if (running->trial.lap_over()) running->trial.end_lap();
  if (running->trial.complete()) {
    if (rank_ == 0 && running->trial.choices().size() > 1) log_info(outcome(key, running->trial));
    plans_.clear();
    return std::nullopt;
  }
  const Choice& choice = running->trial.next();
  return TrialCall{key, {choice, to_string(choice), "being tried", 0}};
}

void CommState::record_trial(const TrialKey& key, double seconds, std::uint64_t sent) {
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find(key);
  if (found == trials_.end()) return;  // an option was set meanwhile
  Trial& trial = found->second->trial;
  if (!trial.complete() && !trial.lap_over()) trial.record(seconds, sent);
}

bool CommState::board_tells_mean() const {
  const std::lock_guard lock(mutex_);
  return shares_board_ && one_choice_locked() && !mpi_is_forced();
}

std::size_t CommState::board_mean() const {
  const std::lock_guard lock(mutex_);
  return board_mean_.value_or(0);
}

void CommState::note_blocks(std::optional<std::uint64_t> bytes) {
  const std::lock_guard lock(mutex_);
  if (!bytes) {
    ++mpi_blocks_;
    return;
  }
  board_mean_ = *bytes / (static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_));
  mpi_blocks_ = 0;
}

/// How blocks of different sizes travel in a node, when nothing has to be agreed before.
CommState::Quick CommState::blocks_way(bool may_use_mpi) {
  const Offer offer{may_use_mpi, true};
  const std::size_t bytes = board_mean_.value_or(0);
  const TrialKey key = key_of(false, bytes, offer);
  Quick way;
  const Trial* const trial = tries(key, bytes) ? &trial_of(key, bytes, offer).trial : nullptr;
  if (trial != nullptr && trial->lap_over()) return {};
  if (trial != nullptr && !trial->complete()) {
    way.mpi = trial->next().algorithm == Algorithm::mpi;
    way.tried = key;
  } else if (const auto winner = decided(false, bytes, offer)) {
    way.mpi = winner->choice.algorithm == Algorithm::mpi;
  }
  if (!way.mpi) way.board = agreement_.node->board(0);
  return way;
}

void CommState::end_trials() {
  for (const auto& [key, running] : trials_) {
    for (MPI_Request& request : running->requests) {
      if (request != MPI_REQUEST_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  trials_.clear();
}

}  // namespace tapa
