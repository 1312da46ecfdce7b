/// @file
/// The plans that compete on one communicator: the first blocking calls of each class of sizes probe them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autotune/competition.hpp"
#include "run/mpi_call.hpp"

namespace tapa {

/// Bytes of a block, rounded down to a power of two: sizes that are tuned together.
[[nodiscard]] constexpr std::size_t size_class_of(std::size_t bytes) {
  return std::bit_floor(bytes);
}

/// Not thread-safe. Keeps a reference to the source.
class Autotuner {
 public:
  Autotuner(const CandidateSource& source, int ranks) : terms_{source, ranks} {}

  [[nodiscard]] static ProbeKey key_of(bool uniform, std::size_t bytes, Offer offer) {
    return {uniform, offer.mpi && countable(bytes), size_class_of(bytes), offer.edges};
  }

  /// Whether a size is still to be decided. `mean_known`: whether the mean of different blocks is known.
  [[nodiscard]] bool undecided(const ProbeKey& key, std::size_t bytes, bool mean_known) const {
    if (terms_.ranks < 2 || !terms_.source.tunes(bytes)) return false;
    if (!key.uniform && !mean_known) return false;  // nothing to go by yet
    const Competition* const own = find(key);
    if (own != nullptr && own->needs_review()) return true;
    if (own != nullptr && own->ended() != nullptr) return false;
    const Competition* const with_mpi = key.mpi ? own : find({key.uniform, true, key.size_class, key.edges});
    return with_mpi == nullptr || with_mpi->ended() == nullptr;
  }
  /// The competition of an undecided key, made when there is none.
  [[nodiscard]] Competition& running(const ProbeKey& key, std::size_t bytes, Offer offer) {
    if (Competition* const competition = find(key)) {
      competition->review();
      return *competition;
    }
    return *(runs_[key] = std::make_unique<Competition>(terms_, key, choices_for(key, bytes, offer),
                                                        earlier(key.uniform, key.size_class), bytes, offer));
  }
  /// That of a decided key, or null.
  [[nodiscard]] Competition* decided_by(const ProbeKey& key) const {
    for (const bool mpi : {true, false}) {
      Competition* const competition = find({key.uniform, mpi, key.size_class, key.edges});
      if (competition != nullptr && competition->now().complete()) return competition;
    }
    return nullptr;
  }
  /// A probe has ended. Once for each, also when it failed: all ranks stay in step.
  void record(const ProbeKey& key, double seconds, std::uint64_t sent) {
    if (Competition* const competition = find(key))
      competition->record(seconds, sent);  // else an option was set
  }

  /// A plan that was probed, or null.
  struct Fastest {
    const Choice* choice = nullptr;
    const Autotuning* in = nullptr;  // where it was
    std::size_t at = 0;
    [[nodiscard]] double median() const { return in->times().median(at); }  // seconds
  };
  /// The fastest plan that suits the offer, once the size is decided. `not_mpi`: MPI is passed over.
  [[nodiscard]] Fastest fastest(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const {
    const Autotuning* const found = ended(uniform, bytes, offer.edges);
    if (found == nullptr) return {};
    for (const std::size_t i : found->ranking()) {
      const Choice& choice = found->choices()[i];
      if (!allowed(choice, offer) || (not_mpi && choice.algorithm == Algorithm::mpi)) continue;
      return {&choice, found, i};
    }
    return {};
  }
  /// The same with what is said about it, which takes longer than a short exchange.
  [[nodiscard]] std::optional<Decision> decided(bool uniform, std::size_t bytes, Offer offer,
                                                bool not_mpi) const {
    const Fastest plan = fastest(uniform, bytes, offer, not_mpi);
    if (plan.choice == nullptr) return std::nullopt;
    return Decision{*plan.choice, to_string(*plan.choice),
                    "the fastest of " + std::to_string(plan.in->choices().size()) +
                        " plans that were probed, " + in_microseconds(plan.median()),
                    plan.median()};
  }
  /// Whether blocks of that size, all alike, are known to travel faster by some plan than by MPI.
  // What a plan gains must be more than a tie, as it has been probed in blocking calls only.
  [[nodiscard]] bool beats_mpi(std::size_t bytes, Offer offer) const {
    const Fastest plan = fastest(true, bytes, offer, true);
    if (plan.choice == nullptr) return false;
    const std::vector<Choice>& choices = plan.in->choices();
    const auto mpi = std::ranges::find(choices, Algorithm::mpi, &Choice::algorithm);
    if (mpi == choices.end()) return false;
    const double seconds = plan.in->times().median(static_cast<std::size_t>(mpi - choices.begin()));
    return plan.median() < (1 - kClearGain) * seconds;
  }
  /// Whether blocking calls with such blocks are MPI's, as was found out here or by an earlier communicator.
  [[nodiscard]] bool mpi_has_won(std::size_t bytes) const {
    if (const Choice* const winner = fastest(true, bytes, {true, true, false}, false).choice)
      return winner->algorithm == Algorithm::mpi;
    const SizeResult* const found = earlier(true, bytes);
    return found != nullptr && found->decided && found->plans.front().choice.algorithm == Algorithm::mpi;
  }

  /// What earlier runs have found for these ranks, to begin with. Alike on all ranks, before the first call.
  void remember(std::vector<SizeResult> sizes) { earlier_ = std::move(sizes); }
  /// What another run could use.
  [[nodiscard]] std::vector<SizeResult> results() const {
    std::vector<SizeResult> sizes;
    for (const auto& [key, competition] : runs_) {
      if (!key.mpi || key.edges) continue;
      SizeResult size = competition->result();
      if (!size.plans.empty()) sizes.push_back(std::move(size));
    }
    return sizes;
  }
  [[nodiscard]] const Terms::Used& used() const { return terms_.used; }

  /// Limits what probing may cost. `spent`: seconds of all-to-alls so far. Alike on all ranks, before calls.
  void limit(double spent) { terms_.budget = ProbeBudget(spent); }
  [[nodiscard]] bool limited() const { return terms_.budget.limited(); }

  /// Forgets everything, also what is being agreed.
  void reset() {
    runs_.clear();
    earlier_.clear();
  }

 private:
  // Beside MPI's own. More would make the first calls slow for the sake of plans that are seldom the best.
  static constexpr std::size_t kMostPlans = 4;

  static constexpr double kClearGain = 0.1;

  // Sizes that are farther apart tell little of each other: what takes the time is another thing.
  static constexpr double kNearby = 16;

  static bool allowed(const Choice& choice, Offer offer) {
    // MPI's nonblocking all-to-all is another one than that which was probed.
    if (choice.algorithm == Algorithm::mpi) return offer.mpi && !offer.overlapped;
    if (choice.algorithm == Algorithm::memory) return offer.memory;
    return !offer.overlapped || !lock_step(choice);
  }

  /// How many times one size is as large as the other.
  static double ratio(std::size_t a, std::size_t b) {
    return (static_cast<double>(std::max(a, b)) + 1) / (static_cast<double>(std::min(a, b)) + 1);
  }

  [[nodiscard]] Competition* find(const ProbeKey& key) const {
    const auto found = runs_.find(key);
    return found != runs_.end() ? found->second.get() : nullptr;
  }

  /// What has decided a size, with MPI or without; or null.
  [[nodiscard]] const Autotuning* ended(bool uniform, std::size_t bytes, bool edges) const {
    for (const bool mpi : {true, false}) {
      const Competition* const competition = find({uniform, mpi, size_class_of(bytes), edges});
      if (competition != nullptr && competition->ended() != nullptr) return competition->ended();
    }
    return nullptr;
  }

  [[nodiscard]] const SizeResult* earlier(bool uniform, std::size_t bytes) const {
    const auto found = std::ranges::find_if(earlier_, [&](const SizeResult& size) {
      return size.uniform == uniform && size.bytes == size_class_of(bytes);
    });
    return found != earlier_.end() ? &*found : nullptr;
  }

  /// What the competition of the nearest size, at most kNearby times larger or smaller, has found.
  [[nodiscard]] std::vector<Tried> tried_near(const ProbeKey& key, Offer offer) const {
    const Autotuning* nearest = nullptr;
    std::size_t size = 0;
    for (const auto& [other, competition] : runs_) {
      if (other.uniform != key.uniform || other.edges != key.edges || !competition->now().complete())
        continue;
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

  [[nodiscard]] std::vector<Choice> choices_for(const ProbeKey& key, std::size_t bytes, Offer offer) const {
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

  Terms terms_;  // of the competitions
  std::vector<SizeResult> earlier_;
  std::map<ProbeKey, std::unique_ptr<Competition>> runs_;
};

}  // namespace tapa
