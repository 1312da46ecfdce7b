// TAPA_ADAPT: the plans that compete on a communicator.
#include <algorithm>
#include <cstdio>

#include "comm/comm_state.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/mpi_call.hpp"

namespace tapa {

namespace {

// Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
constexpr std::size_t kMostPlans = 4;

// Sizes that are farther apart tell little of each other: what takes the time is another thing.
constexpr double kNearby = 16;

// Calls that MPI carries out tell nobody the mean block; every so many go over the buffers, which does.
constexpr unsigned kTellMeanEvery = 16;

std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

/// What a autotuning has found, for the log: the best first.
std::string outcome(const ProbeKey& key, const Autotuning& autotuning) {
  std::string text = (key.uniform ? "equal blocks of " : "blocks of a mean of ") +
                     std::to_string(key.size_class) + " bytes and more were tried:";
  for (const std::size_t i : autotuning.ranking()) {
    text += (text.back() == ':' ? " " : ", ") + to_string(autotuning.choices()[i]) + " " +
            in_microseconds(autotuning.median(i)) + " in " + std::to_string(autotuning.calls_of(i)) +
            " calls";
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
  if (choice.algorithm == Algorithm::mpi) return offer.mpi && !offer.overlapped;
  if (choice.algorithm == Algorithm::memory) return offer.memory;
  return !offer.overlapped || !lock_step(choice);
}

}  // namespace

ProbeKey CommState::key_of(bool uniform, std::size_t bytes, Offer offer) {
  return {uniform, offer.mpi && countable(bytes), size_class_of(bytes)};
}

const CommState::RunningAutotuning* CommState::ended_autotuning(const ProbeKey& key) const {
  const auto found = autotunings_.find(key);
  return found != autotunings_.end() && found->second->autotuning.complete() ? found->second.get() : nullptr;
}

/// Whether a size is still to be decided.
bool CommState::tries(const ProbeKey& key, std::size_t bytes) const {
  const Settings& settings = options_->settings();
  if (!settings.adapt || !settings.enable || settings.plan || size_ < 2) return false;
  if (covered(measurements_, bytes)) return false;
  if (!key.uniform && one_choice_locked() && !shared_mean_) return false;              // nothing to go by yet
  if (ended_autotuning({key.uniform, true, key.size_class}) != nullptr) return false;  // with MPI or without
  return key.mpi || ended_autotuning(key) == nullptr;
}

std::optional<Decision> CommState::decided(bool uniform, std::size_t bytes, Offer offer) const {
  const RunningAutotuning* ended = ended_autotuning({uniform, true, size_class_of(bytes)});
  if (ended == nullptr) ended = ended_autotuning({uniform, false, size_class_of(bytes)});
  if (ended == nullptr) return std::nullopt;
  const Autotuning& autotuning = ended->autotuning;
  for (const std::size_t i : autotuning.ranking()) {
    const Choice& choice = autotuning.choices()[i];
    if (!allowed(choice, offer)) continue;
    // Now and then MPI's turn is left out, so that the buffers tells the mean block.
    const bool by_memory = !uniform && one_choice_locked() && mpi_blocks_ + 1 >= kTellMeanEvery;
    if (choice.algorithm == Algorithm::mpi && by_memory) continue;
    const double median = autotuning.median(i);
    return Decision{choice, to_string(choice),
                    "the fastest of " + std::to_string(autotuning.choices().size()) +
                        " plans that were tried, " + in_microseconds(median),
                    median};
  }
  return std::nullopt;
}

/// What the autotuning of the nearest size, at most kNearby times larger or smaller, has found.
std::vector<Tried> CommState::tried_near(const ProbeKey& key, Offer offer) const {
  const auto ratio = [&](std::size_t size_class) {
    const double larger = static_cast<double>(std::max(size_class, key.size_class)) + 1;
    return larger / (static_cast<double>(std::min(size_class, key.size_class)) + 1);
  };
  const std::pair<const ProbeKey, std::unique_ptr<RunningAutotuning>>* nearest = nullptr;
  for (const auto& entry : autotunings_) {
    if (entry.first.uniform != key.uniform || !entry.second || !entry.second->autotuning.complete()) continue;
    const double far = ratio(entry.first.size_class);
    if (far <= kNearby && (nearest == nullptr || far < ratio(nearest->first.size_class))) nearest = &entry;
  }
  if (nearest == nullptr) return {};
  const Autotuning& autotuning = nearest->second->autotuning;
  const std::vector<Candidate> then = ranked_locked(nearest->first.size_class, {false, offer.memory});
  std::vector<Tried> tried;
  for (std::size_t i = 0; i < autotuning.choices().size(); ++i) {
    const auto found =
        std::ranges::find(then, autotuning.choices()[i], &Candidate::choice);  // MPI is none of them
    if (found != then.end()) tried.push_back({found->choice, found->seconds, autotuning.least(i)});
  }
  return tried;
}

CommState::RunningAutotuning& CommState::autotuning_of(const ProbeKey& key, std::size_t bytes, Offer offer) {
  std::unique_ptr<RunningAutotuning>& autotuning = autotunings_[key];
  if (autotuning) return *autotuning;
  // Inside a node there are the buffers and MPI: messages of ours would be MPI's too.
  const std::size_t most = one_choice_locked() ? 1 : kMostPlans;
  std::vector<Candidate> ranked = ranked_locked(bytes, {false, offer.memory});
  if (!one_choice_locked()) ranked = corrected(std::move(ranked), tried_near(key, offer));
  std::vector<Choice> choices = plausible(ranked, most);
  // Second, so that a few calls suffice to see whether MPI is faster.
  if (key.mpi) choices.insert(choices.begin() + 1, only_mpi());
  if (key.uniform) {
    autotuning.reset(new RunningAutotuning{Autotuning(std::move(choices))});
  } else {
    const auto blocks = static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_);
    const std::uint64_t smallest = key.size_class * blocks;
    const std::uint64_t largest = (std::max<std::uint64_t>(2 * key.size_class, 1)) * blocks - 1;
    autotuning.reset(new RunningAutotuning{Autotuning(std::move(choices), smallest, largest)});
  }
  return *autotuning;
}

/// Whether all ranks know the slowest rank's times of a round. No lock is held.
bool CommState::agree_on_round(RunningAutotuning& running, bool uniform) {
  const auto seconds = running.autotuning.seconds();
  const auto bytes = running.autotuning.bytes();
  if (!running.agreeing) {
    check_mpi(PMPI_Iallreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE,
                              MPI_MAX, agreement_.comm, &running.requests[0]),
              "MPI_Iallreduce");
    if (!uniform)
      check_mpi(PMPI_Iallreduce(MPI_IN_PLACE, bytes.data(), static_cast<int>(bytes.size()), MPI_UINT64_T,
                                MPI_SUM, agreement_.comm, &running.requests[1]),
                "MPI_Iallreduce");
    running.agreeing = true;
  }
  int complete = 0;
  check_mpi(PMPI_Testall(2, running.requests.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Iallreduce");
  if (complete == 0) return false;
  running.agreeing = false;
  return true;
}

// Only the operation whose turn it is gets here, and no lock is held while MPI is called.
std::optional<Probe> CommState::try_plan(bool uniform, std::size_t bytes, Offer offer, bool& waits) {
  waits = false;
  const ProbeKey key = key_of(uniform, bytes, offer);
  RunningAutotuning* running = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!tries(key, bytes)) return std::nullopt;
    running = &autotuning_of(key, bytes, offer);
  }
  if (running->autotuning.round_over()) {
    waits = !agree_on_round(*running, uniform);
    if (waits) return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  if (running->autotuning.round_over()) running->autotuning.end_round();
  if (running->autotuning.complete()) {
    if (rank_ == 0 && running->autotuning.choices().size() > 1) log_info(outcome(key, running->autotuning));
    plans_.clear();
    return std::nullopt;
  }
  const Choice& choice = running->autotuning.next();
  return Probe{key, {choice, to_string(choice), "being tried", 0}};
}

void CommState::record_probe(const ProbeKey& key, double seconds, std::uint64_t sent) {
  const std::lock_guard lock(mutex_);
  const auto found = autotunings_.find(key);
  if (found == autotunings_.end()) return;  // an option was set meanwhile
  Autotuning& autotuning = found->second->autotuning;
  if (!autotuning.complete() && !autotuning.round_over()) autotuning.record(seconds, sent);
}

bool CommState::exchange_tells_mean() const {
  const std::lock_guard lock(mutex_);
  return shares_buffers_ && one_choice_locked() && !mpi_is_forced();
}

std::size_t CommState::shared_mean() const {
  const std::lock_guard lock(mutex_);
  return shared_mean_.value_or(0);
}

void CommState::note_blocks(std::optional<std::uint64_t> bytes) {
  const std::lock_guard lock(mutex_);
  if (!bytes) {
    ++mpi_blocks_;
    return;
  }
  shared_mean_ = *bytes / (static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_));
  mpi_blocks_ = 0;
}

/// How blocks of different sizes travel in a node, when nothing has to be agreed before.
CommState::FastPath CommState::blocks_way(bool may_use_mpi) {
  const Offer offer{may_use_mpi, true};
  const std::size_t bytes = shared_mean_.value_or(0);
  const ProbeKey key = key_of(false, bytes, offer);
  FastPath way;
  const Autotuning* const autotuning =
      tries(key, bytes) ? &autotuning_of(key, bytes, offer).autotuning : nullptr;
  if (autotuning != nullptr && autotuning->round_over()) return {};
  if (autotuning != nullptr && !autotuning->complete()) {
    way.mpi = autotuning->next().algorithm == Algorithm::mpi;
    way.tried = key;
  } else if (const auto winner = decided(false, bytes, offer)) {
    way.mpi = winner->choice.algorithm == Algorithm::mpi;
  }
  if (!way.mpi) way.buffers = agreement_.node->buffers(0);
  return way;
}

void CommState::end_autotunings() {
  for (const auto& [key, running] : autotunings_) {
    for (MPI_Request& request : running->requests) {
      if (request != MPI_REQUEST_NULL) PMPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  autotunings_.clear();
}

}  // namespace tapa
