#include "autotune/autotuner.hpp"

#include <algorithm>

#include "run/mpi_call.hpp"

namespace tapa {

namespace {

// Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
constexpr std::size_t kMostPlans = 4;

constexpr double kClearGain = 0.1;

// Sizes that are farther apart tell little of each other: what takes the time is another thing.
constexpr double kNearby = 16;

bool allowed(const Choice& choice, Offer offer) {
  // MPI's nonblocking all-to-all is another one than that which was probed.
  if (choice.algorithm == Algorithm::mpi) return offer.mpi && !offer.overlapped;
  if (choice.algorithm == Algorithm::memory) return offer.memory;
  return !offer.overlapped || !lock_step(choice);
}

/// How many times one size is as large as the other.
double ratio(std::size_t a, std::size_t b) {
  return (static_cast<double>(std::max(a, b)) + 1) / (static_cast<double>(std::min(a, b)) + 1);
}

}  // namespace

ProbeKey Autotuner::key_of(bool uniform, std::size_t bytes, Offer offer) {
  return {uniform, offer.mpi && countable(bytes), size_class_of(bytes), offer.edges};
}

Competition* Autotuner::find(const ProbeKey& key) const {
  const auto found = runs_.find(key);
  return found != runs_.end() ? found->second.get() : nullptr;
}

/// What has decided a size, with MPI or without; or null.
const Autotuning* Autotuner::ended(bool uniform, std::size_t bytes, bool edges) const {
  for (const bool mpi : {true, false}) {
    const Competition* const competition = find({uniform, mpi, size_class_of(bytes), edges});
    if (competition != nullptr && competition->ended() != nullptr) return competition->ended();
  }
  return nullptr;
}

const SizeResult* Autotuner::earlier(bool uniform, std::size_t bytes) const {
  const auto found = std::ranges::find_if(earlier_, [&](const SizeResult& size) {
    return size.uniform == uniform && size.bytes == size_class_of(bytes);
  });
  return found != earlier_.end() ? &*found : nullptr;
}

Competition* Autotuner::decided_by(const ProbeKey& key) const {
  for (const bool mpi : {true, false}) {
    Competition* const competition = find({key.uniform, mpi, key.size_class, key.edges});
    if (competition != nullptr && competition->now().complete()) return competition;
  }
  return nullptr;
}

bool Autotuner::undecided(const ProbeKey& key, std::size_t bytes, bool mean_known) const {
  if (terms_.ranks < 2 || !terms_.source.tunes(bytes)) return false;
  if (!key.uniform && !mean_known) return false;  // nothing to go by yet
  const Competition* const own = find(key);
  if (own != nullptr && own->needs_review()) return true;
  if (own != nullptr && own->ended() != nullptr) return false;
  const Competition* const with_mpi = key.mpi ? own : find({key.uniform, true, key.size_class, key.edges});
  return with_mpi == nullptr || with_mpi->ended() == nullptr;
}

Autotuner::Fastest Autotuner::fastest(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const {
  const Autotuning* const found = ended(uniform, bytes, offer.edges);
  if (found == nullptr) return {};
  for (const std::size_t i : found->ranking()) {
    const Choice& choice = found->choices()[i];
    if (!allowed(choice, offer) || (not_mpi && choice.algorithm == Algorithm::mpi)) continue;
    return {&choice, found, i};
  }
  return {};
}

std::optional<Decision> Autotuner::decided(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const {
  const Fastest plan = fastest(uniform, bytes, offer, not_mpi);
  if (plan.choice == nullptr) return std::nullopt;
  return Decision{*plan.choice, to_string(*plan.choice),
                  "the fastest of " + std::to_string(plan.in->choices().size()) +
                      " plans that were probed, " + in_microseconds(plan.median()),
                  plan.median()};
}

// What a plan gains must be more than a tie, as it has been probed in blocking calls only.
bool Autotuner::beats_mpi(std::size_t bytes, Offer offer) const {
  const Fastest plan = fastest(true, bytes, offer, true);
  if (plan.choice == nullptr) return false;
  const std::vector<Choice>& choices = plan.in->choices();
  const auto mpi = std::ranges::find(choices, Algorithm::mpi, &Choice::algorithm);
  if (mpi == choices.end()) return false;
  const double seconds = plan.in->times().median(static_cast<std::size_t>(mpi - choices.begin()));
  return plan.median() < (1 - kClearGain) * seconds;
}

bool Autotuner::mpi_has_won(std::size_t bytes) const {
  if (const Choice* const winner = fastest(true, bytes, {true, true, false}, false).choice)
    return winner->algorithm == Algorithm::mpi;
  const SizeResult* const found = earlier(true, bytes);
  return found != nullptr && found->decided && found->plans.front().choice.algorithm == Algorithm::mpi;
}

/// What the competition of the nearest size, at most kNearby times larger or smaller, has found.
std::vector<Tried> Autotuner::tried_near(const ProbeKey& key, Offer offer) const {
  const Autotuning* nearest = nullptr;
  std::size_t size = 0;
  for (const auto& [other, competition] : runs_) {
    if (other.uniform != key.uniform || other.edges != key.edges || !competition->now().complete()) continue;
    const double far = ratio(other.size_class, key.size_class);
    if (far > kNearby || (nearest != nullptr && far >= ratio(size, key.size_class))) continue;
    nearest = &competition->now();
    size = other.size_class;
  }
  if (nearest == nullptr) return {};
  const std::vector<Candidate> then = terms_.source.ranked(size, {false, offer.memory, false, key.edges});
  std::vector<Tried> tried;
  for (std::size_t i = 0; i < nearest->choices().size(); ++i) {
    const auto found =
        std::ranges::find(then, nearest->choices()[i], &Candidate::choice);  // MPI is none of them
    if (found != then.end()) tried.push_back({found->choice, found->seconds, nearest->times().least(i)});
  }
  return tried;
}

std::vector<Choice> Autotuner::choices_for(const ProbeKey& key, std::size_t bytes, Offer offer) const {
  // Inside a node there are shared memory and MPI: messages of ours would be MPI's too.
  const bool one = terms_.source.one_choice();
  std::vector<Candidate> ranked = terms_.source.ranked(bytes, {false, offer.memory, false, key.edges});
  // Along edges MPI sends each block by itself, too.
  if (key.edges && key.mpi && ranked.size() > 1)
    std::erase_if(ranked, [](const Candidate& c) { return c.choice == Choice{}; });
  if (!one) ranked = corrected(std::move(ranked), tried_near(key, offer));
  std::vector<Choice> choices = plausible(ranked, one ? 1 : kMostPlans);
  // Second, so that a few calls suffice to see whether MPI is faster.
  if (key.mpi) choices.insert(choices.begin() + 1, Choice{Algorithm::mpi});
  return choices;
}

std::vector<SizeResult> Autotuner::results(int aging) const {
  std::vector<SizeResult> sizes;
  for (const auto& [key, competition] : runs_) {
    if (!key.mpi || key.edges) continue;
    SizeResult size = competition->result(aging);
    if (!size.plans.empty()) sizes.push_back(std::move(size));
  }
  return sizes;
}

Competition& Autotuner::running(const ProbeKey& key, std::size_t bytes, Offer offer) {
  if (Competition* const competition = find(key)) {
    competition->review();
    return *competition;
  }
  return *(runs_[key] = std::make_unique<Competition>(terms_, key, choices_for(key, bytes, offer),
                                                      earlier(key.uniform, key.size_class), bytes, offer));
}

void Autotuner::record(const ProbeKey& key, double seconds, std::uint64_t sent) {
  if (Competition* const competition = find(key))
    competition->record(seconds, sent);  // else an option was set
}

void Autotuner::reset() {
  runs_.clear();
  earlier_.clear();
}

}  // namespace tapa
