#include "autotune/autotuner.hpp"

#include <algorithm>
#include <utility>

#include "run/mpi_call.hpp"

namespace tapa {

namespace {

// Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
constexpr std::size_t kMostPlans = 4;

// Calls after which what was decided is looked at again; then four times as many, and so on. A competition of
// two takes at most 130 calls.
constexpr std::uint64_t kFirstReview = 4000;
constexpr unsigned kReviews = 16;

constexpr double kClearGain = 0.1;

// By the model: over what it gives a flat exchange, or over what MPI has taken.
constexpr double kSureGain = 1.3;

// Along edges MPI's first calls make connections, which takes as long as dozens of a plan's calls. Where a
// plan should gain far more its trial can wait so long.
constexpr double kFarGain = 1.5;
constexpr std::uint64_t kPutOff = 25;

// Sizes that are farther apart tell little of each other: what takes the time is another thing.
constexpr double kNearby = 16;

Choice only_mpi() {
  Choice choice;
  choice.algorithm = Algorithm::mpi;
  return choice;
}

bool allowed(const Choice& choice, Offer offer) {
  // MPI's nonblocking all-to-all is another one than that which was probed.
  if (choice.algorithm == Algorithm::mpi) return offer.mpi && !offer.overlapped;
  if (choice.algorithm == Algorithm::memory) return offer.memory;
  return !offer.overlapped || !lock_step(choice);
}

}  // namespace

std::string outcome(const ProbeKey& key, const Autotuning& autotuning) {
  std::string text = std::string(key.edges ? "along edges " : "") +
                     (key.uniform ? "equal blocks of " : "blocks of a mean of ") +
                     std::to_string(key.size_class) + " bytes and more were tuned:";
  for (const std::size_t i : autotuning.ranking()) {
    text += (text.back() == ':' ? " " : ", ") + to_string(autotuning.choices()[i]) + " " +
            in_microseconds(autotuning.median(i)) + " in " + std::to_string(autotuning.calls_of(i)) +
            " calls";
  }
  return text;
}

ProbeKey Autotuner::key_of(bool uniform, std::size_t bytes, Offer offer) {
  return {uniform, offer.mpi && countable(bytes), size_class_of(bytes), offer.edges};
}

Autotuner::Running* Autotuner::find(const ProbeKey& key) const {
  const auto found = runs_.find(key);
  return found != runs_.end() ? found->second.get() : nullptr;
}

const Autotuning* Autotuner::ended(const ProbeKey& key) const {
  const Running* const running = find(key);
  if (running == nullptr) return nullptr;
  return running->autotuning.complete() ? &running->autotuning : running->before.get();
}

bool Autotuner::needs_review(const ProbeKey& key) const {
  const Running* const running = find(key);
  if (running == nullptr) return false;
  return running->before != nullptr || (running->autotuning.complete() && running->until_review == 0);
}

Autotuner::Running* Autotuner::decided_by(const ProbeKey& key) {
  for (const bool mpi : {true, false}) {
    Running* const running = find({key.uniform, mpi, key.size_class, key.edges});
    if (running != nullptr && running->autotuning.complete()) return running;
  }
  return nullptr;
}

bool Autotuner::undecided(const ProbeKey& key, std::size_t bytes, bool mean_known) const {
  if (ranks_ < 2 || !source_.tunes(bytes)) return false;
  if (!key.uniform && !mean_known) return false;  // nothing to go by yet
  if (needs_review(key)) return true;
  if (ended({key.uniform, true, key.size_class, key.edges}) != nullptr) return false;  // with MPI or without
  return key.mpi || ended(key) == nullptr;
}

Autotuner::Fastest Autotuner::fastest(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const {
  const Autotuning* found = ended({uniform, true, size_class_of(bytes), offer.edges});
  if (found == nullptr) found = ended({uniform, false, size_class_of(bytes), offer.edges});
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
  const Autotuning* const found = ended({true, true, size_class_of(bytes), offer.edges});
  const Fastest plan = fastest(true, bytes, offer, true);
  if (found == nullptr || plan.choice == nullptr) return false;
  const auto mpi = std::ranges::find(found->choices(), Algorithm::mpi, &Choice::algorithm);
  if (mpi == found->choices().end()) return false;
  const double seconds = found->median(static_cast<std::size_t>(mpi - found->choices().begin()));
  return plan.median() < (1 - kClearGain) * seconds;
}

bool Autotuner::mpi_has_won(std::size_t bytes) const {
  if (const Choice* const winner = fastest(true, bytes, {true, true, false}, false).choice)
    return winner->algorithm == Algorithm::mpi;
  const auto found = std::ranges::find_if(earlier_, [&](const SizeResult& size) {
    return size.uniform && size.bytes == size_class_of(bytes) && size.decided;
  });
  return found != earlier_.end() && found->plans.front().choice.algorithm == Algorithm::mpi;
}

/// What the competition of the nearest size, at most kNearby times larger or smaller, has found.
std::vector<Tried> Autotuner::tried_near(const ProbeKey& key, Offer offer) const {
  const auto ratio = [&](std::size_t size_class) {
    const double larger = static_cast<double>(std::max(size_class, key.size_class)) + 1;
    return larger / (static_cast<double>(std::min(size_class, key.size_class)) + 1);
  };
  const std::pair<const ProbeKey, std::unique_ptr<Running>>* nearest = nullptr;
  for (const auto& entry : runs_) {
    if (entry.first.uniform != key.uniform || entry.first.edges != key.edges) continue;
    if (!entry.second || !entry.second->autotuning.complete()) continue;
    const double far = ratio(entry.first.size_class);
    if (far <= kNearby && (nearest == nullptr || far < ratio(nearest->first.size_class))) nearest = &entry;
  }
  if (nearest == nullptr) return {};
  const Autotuning& autotuning = nearest->second->autotuning;
  const std::vector<Candidate> then =
      source_.ranked(nearest->first.size_class, {false, offer.memory, false, key.edges});
  std::vector<Tried> tried;
  for (std::size_t i = 0; i < autotuning.choices().size(); ++i) {
    const auto found =
        std::ranges::find(then, autotuning.choices()[i], &Candidate::choice);  // MPI is none of them
    if (found != then.end()) tried.push_back({found->choice, found->seconds, autotuning.least(i)});
  }
  return tried;
}

std::vector<Choice> Autotuner::choices_for(const ProbeKey& key, std::size_t bytes, Offer offer) const {
  // Inside a node there are shared memory and MPI: messages of ours would be MPI's too.
  const std::size_t most = source_.one_choice() ? 1 : kMostPlans;
  std::vector<Candidate> ranked = source_.ranked(bytes, {false, offer.memory, false, key.edges});
  // Along edges MPI sends each block by itself, too.
  if (key.edges && key.mpi && ranked.size() > 1)
    std::erase_if(ranked, [](const Candidate& c) { return c.choice == Choice{}; });
  if (!source_.one_choice()) ranked = corrected(std::move(ranked), tried_near(key, offer));
  std::vector<Choice> choices = plausible(ranked, most);
  // Second, so that a few calls suffice to see whether MPI is faster.
  if (key.mpi) choices.insert(choices.begin() + 1, only_mpi());
  return choices;
}

/// The bytes of calls that count for a key, all ranks' together.
static std::pair<std::uint64_t, std::uint64_t> bytes_that_count(const ProbeKey& key, std::uint64_t blocks) {
  if (key.uniform) return {0, UINT64_MAX};
  return {key.size_class * blocks, std::max<std::uint64_t>(2 * key.size_class, 1) * blocks - 1};
}

Autotuning Autotuner::compete(const ProbeKey& key, std::vector<Choice> choices) {
  const auto [smallest, largest] = bytes_that_count(key, source_.blocks(key.edges));
  return Autotuning(std::move(choices), budget_, smallest, largest);
}

Autotuning Autotuner::try_plan(const ProbeKey& key, Choice plan, std::vector<double> mpi) {
  const auto [smallest, largest] = bytes_that_count(key, source_.blocks(key.edges));
  return Autotuning::trial(std::move(plan), budget_, smallest, largest, std::move(mpi),
                           source_.memory_first());
}

void Autotuner::begin_trial(Running& running, const ProbeKey& key, Choice plan, std::vector<double> mpi) {
  running.otherwise = running.autotuning.choices();
  running.autotuning = try_plan(key, std::move(plan), std::move(mpi));
  running.tried = true;
}

void Autotuner::remember(std::vector<SizeResult> sizes) {
  earlier_ = std::move(sizes);
}

/// A competition that is about to begin goes on where an earlier run has left off.
void Autotuner::recall(Running& running, const ProbeKey& key, Offer offer) {
  const auto found = std::ranges::find_if(earlier_, [&](const SizeResult& size) {
    return size.uniform == key.uniform && size.bytes == key.size_class;
  });
  if (found == earlier_.end() || !key.mpi || key.edges) return;
  const ResultsStart start = start_from(*found);
  const auto has = [&](const Choice& choice) { return source_.possible(choice, offer.memory); };
  switch (start.kind) {
    case ResultsStart::Kind::trial:
      if (!has(start.plan)) return;
      begin_trial(running, key, start.plan);
      running.results = &*found;
      break;
    case ResultsStart::Kind::mpi: {
      const auto is_mpi = [](const auto& plan) { return plan.choice.algorithm == Algorithm::mpi; };
      std::vector<PlanResult> known = found->plans;
      std::erase_if(known, [&](const PlanResult& plan) { return !is_mpi(plan) && !has(plan.choice); });
      if (!source_.memory_first()) std::stable_partition(known.begin(), known.end(), is_mpi);
      if (known.size() < 2) return;  // nothing that MPI could be compared with later
      running.autotuning = Autotuning::finished(known);
      running.results = &*found;
      wait_for_review(running);
      break;
    }
    case ResultsStart::Kind::compete: {
      std::vector<Choice> choices = running.autotuning.choices();
      const auto slow = [&](const Choice& choice) {
        return std::ranges::find(start.without, choice) != start.without.end();
      };
      if (std::erase_if(choices, slow) == 0 || choices.size() < 2) return;
      running.autotuning = compete(key, std::move(choices));
    }
  }
  ++used_.sizes;
}

std::unique_ptr<Autotuner::Running> Autotuner::begin(const ProbeKey& key, std::size_t bytes, Offer offer) {
  auto running = std::unique_ptr<Running>(new Running(compete(key, choices_for(key, bytes, offer))));
  recall(*running, key, offer);
  running->tried |=
      running->results != nullptr || !budget_.limited() || (source_.one_choice() && !source_.memory_first());
  if (!running->tried) trust_model(*running, key, bytes, offer);
  return running;
}

/// A program that did not ask for plans has the calls of one that should be far faster than each rank's
/// messages to all others, which is what MPI's all-to-all comes to at least, or than what MPI has taken where
/// that is known. The plan's calls have to show that it is.
void Autotuner::trust_model(Running& running, const ProbeKey& key, std::size_t bytes, Offer offer) {
  const auto& choices = running.autotuning.choices();
  const auto mpi = std::ranges::find(choices, Algorithm::mpi, &Choice::algorithm);
  if (mpi == choices.end()) return;
  if (source_.memory_first()) return begin_trial(running, key, choices.front());
  const auto at = static_cast<std::size_t>(mpi - choices.begin());
  const std::vector<Candidate> ranked = source_.ranked(bytes, {false, offer.memory, false, key.edges});
  const auto flat = std::ranges::find(ranked, Choice{}, &Candidate::choice);
  const double known = running.autotuning.median(at);
  const double other = known > 0 ? known : flat != ranked.end() ? flat->seconds : 0;
  const auto best = ranked.begin() + (key.edges && ranked.size() > 1 && flat == ranked.begin() ? 1 : 0);
  if (std::ranges::find(choices, best->choice) == choices.end() || other < kSureGain * best->seconds) return;
  begin_trial(running, key, best->choice, running.autotuning.times(at));
  if (key.edges && known <= 0 && other >= kFarGain * best->seconds) running.autotuning.put_off(kPutOff);
}

/// What a competition knows now.
static SizeResult size_of(const ProbeKey& key, const Autotuning& found) {
  SizeResult size;
  size.uniform = key.uniform;
  size.bytes = key.size_class;
  size.decided = found.complete();
  size.plans = found.known();
  return size;
}

std::vector<SizeResult> Autotuner::results(int aging) const {
  std::vector<SizeResult> sizes;
  for (const auto& [key, running] : runs_) {
    if (!key.mpi || key.edges) continue;
    const bool renewed = running->held && running->results != nullptr && running->results->day < aging;
    SizeResult size = running->results != nullptr && !renewed
                          ? *running->results
                          : size_of(key, running->before ? *running->before : running->autotuning);
    size.calls = static_cast<int>(std::min<std::uint64_t>(running->calls, INT32_MAX));
    if (!size.plans.empty()) sizes.push_back(std::move(size));
  }
  return sizes;
}

Autotuner::Running& Autotuner::running(const ProbeKey& key, std::size_t bytes, Offer offer) {
  Running* const running = find(key);
  if (running == nullptr) return *(runs_[key] = begin(key, bytes, offer));
  if (needs_review(key) && running->before == nullptr) review(key, *running);
  return *running;
}

/// The winner and MPI compete once more: probes may have been disturbed, and what is fast can change.
void Autotuner::review(const ProbeKey& key, Running& running) {
  running.before = std::make_unique<Autotuning>(std::move(running.autotuning));
  std::vector<Choice> choices{running.before->choices()[running.before->ranking().front()], only_mpi()};
  if (choices.front() == choices.back()) {
    const auto& ranking = running.before->ranking();
    choices.front() = running.before->choices()[ranking[1]];
  }
  running.autotuning =
      source_.memory_first() ? try_plan(key, choices.front(), {}) : compete(key, std::move(choices));
}

/// Also in a program that asked for plans: what is known may hold no more.
void Autotuner::wait_for_review(Running& running) {
  running.until_review = running.reviews < kReviews ? kFirstReview << (2 * running.reviews) : UINT64_MAX;
  ++running.reviews;
}

void Autotuner::end_trial(const ProbeKey& key, Running& running) {
  std::vector<Choice> otherwise = std::exchange(running.otherwise, {});
  running.held = running.autotuning.ranking().front() == 0;
  if (!running.held && std::exchange(running.results, nullptr) != nullptr) ++used_.refuted;
  if (running.held || source_.one_choice()) return wait_for_review(running);  // there both have been tried
  running.autotuning = compete(key, std::move(otherwise));
}

void Autotuner::end_round(const ProbeKey& key, Running& running, std::size_t bytes, Offer offer) {
  running.autotuning.end_round();
  if (!running.autotuning.complete()) {
    if (!std::exchange(running.tried, true)) trust_model(running, key, bytes, offer);
  } else if (!running.otherwise.empty()) {
    end_trial(key, running);
  } else {
    running.before.reset();
    running.results = nullptr;
    running.until_review = UINT64_MAX;
    if (budget_.limited() && key.mpi && running.autotuning.choices().size() > 1) wait_for_review(running);
  }
}

bool Autotuner::agree(Running& running, const MessageSpace& space, int tag, int rank) {
  const auto seconds = running.autotuning.seconds();
  const auto bytes = running.autotuning.bytes();
  if (!running.agreeing) {
    // Numbers that are not negative are in order as their bits are.
    std::vector<std::uint64_t> numbers;
    for (const double one : seconds) numbers.push_back(std::bit_cast<std::uint64_t>(one));
    numbers.insert(numbers.end(), bytes.begin(), bytes.end());
    std::vector<Combine> how(seconds.size(), Combine::max);
    how.resize(numbers.size(), Combine::sum);
    running.times.start(space, tag, rank, static_cast<int>(space.in_world.size()), numbers, how);
    running.agreeing = true;
  }
  if (!running.times.test()) return false;
  const auto result = running.times.result();
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = std::bit_cast<double>(result[i]);
    bytes[i] = result[seconds.size() + i];
  }
  running.agreeing = false;
  return true;
}

void Autotuner::record(const ProbeKey& key, double seconds, std::uint64_t sent) {
  Running* const running = find(key);
  if (running == nullptr) return;  // an option was set meanwhile
  Autotuning& autotuning = running->autotuning;
  if (!autotuning.complete() && !autotuning.round_over()) autotuning.record(seconds, sent);
}

void Autotuner::reset() {
  runs_.clear();
  earlier_.clear();
}

}  // namespace tapa
