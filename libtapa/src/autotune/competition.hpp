/// @file
/// The competition of plans for the calls of one key, as long as its communicator lives: it begins with an
/// earlier run's result or by the model, and what it has decided is looked at again now and then.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autotune/autotuning.hpp"
#include "autotune/candidates.hpp"
#include "autotune/probe_budget.hpp"
#include "autotune/results.hpp"
#include "plan/choose.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// What a call goes by when plans are probed: calls of the same key compete with each other.
struct ProbeKey {
  bool uniform = false;
  bool mpi = false;  ///< whether MPI may carry it out
  std::size_t size_class = 0;
  bool edges = false;  ///< of calls along the edges of a topology
  auto operator<=>(const ProbeKey&) const = default;
};

/// What the competitions of a communicator have in common; alike on all ranks.
struct Terms {
  const CandidateSource& source;
  int ranks;
  ProbeBudget budget{};
  /// Sizes that began with a result of an earlier run, and those of them where it did not hold.
  struct Used {
    int sizes = 0;
    int refuted = 0;
  } used{};
};

class Competition {
 public:
  /// `terms` and `earlier` (null: there was no run) are kept; a call of `bytes` and this offer begins it.
  Competition(Terms& terms, const ProbeKey& key, std::vector<Choice> choices, const SizeResult* earlier,
              std::size_t bytes, Offer offer)
      : terms_(terms), key_(key), now_(compete(std::move(choices))) {
    if (earlier != nullptr && key.mpi && !key.edges) begin_from(*earlier, offer);
    tried_ = tried_ || earlier_ != nullptr || !terms.budget.limited() ||
             (terms.source.one_choice() && !terms.source.memory_first());
    if (!tried_) trust_model(bytes, offer);
  }

  [[nodiscard]] const Autotuning& now() const { return now_; }
  /// The last one that has ended, or null.
  [[nodiscard]] const Autotuning* ended() const { return now_.complete() ? &now_ : before_.get(); }
  /// What is known, as far as another run could use it.
  [[nodiscard]] SizeResult result() const {
    if (earlier_ != nullptr) return *earlier_;
    const Autotuning& found = before_ ? *before_ : now_;
    return {key_.uniform, key_.size_class, found.complete(), 0, found.known()};
  }
  /// For the log: the best first.
  [[nodiscard]] std::string outcome() const {
    std::string text = std::string(key_.edges ? "along edges " : "") +
                       (key_.uniform ? "equal blocks of " : "blocks of a mean of ") +
                       std::to_string(key_.size_class) + " bytes and more were tuned:";
    for (const std::size_t i : now_.ranking()) {
      text += (text.back() == ':' ? " " : ", ") + to_string(now_.choices()[i]) + " " +
              in_microseconds(now_.times().median(i)) + " in " + std::to_string(now_.times().calls_of(i)) +
              " calls";
    }
    return text;
  }

  /// Whether the next call takes the same way as the last one, and is no probe.
  [[nodiscard]] bool repeats() const { return now_.complete() ? until_review_ > 0 : now_.resting(); }
  /// To be called for each call that is no probe, in the order of calls.
  void count() {
    if (!now_.complete()) {
      now_.count_rest();
    } else if (until_review_ != UINT64_MAX && until_review_ > 0) {
      --until_review_;
    }
  }

  /// A probe has taken so long, and this rank has sent so many bytes.
  void record(double seconds, std::uint64_t sent) {
    if (!now_.complete() && !now_.round_over()) now_.record(seconds, sent);
  }

  /// Whether what was decided is looked at again, or shall be.
  [[nodiscard]] bool needs_review() const {
    return before_ != nullptr || (now_.complete() && until_review_ == 0);
  }

  /// The winner and MPI compete once more where it is time for that.
  // Probes may have been disturbed, and what is fast can change.
  void review() {
    if (!needs_review() || before_ != nullptr) return;
    before_ = std::make_unique<Autotuning>(std::move(now_));
    const auto& ranking = before_->ranking();
    const auto& choices = before_->choices();
    const Choice plan = choices[ranking[is_mpi(choices[ranking.front()]) ? 1 : 0]];
    now_ = terms_.source.memory_first() ? trial(plan, {}) : compete({plan, {Algorithm::mpi}});
  }

  /// Whether all ranks know the slowest rank's times of a round that is over; called until it is so, by the
  /// operation whose turn it is, whose tag that is, with no lock held, as MPI is called. Throws CallError.
  [[nodiscard]] bool agree(const MessageSpace& space, int tag, int rank) {
    const auto seconds = now_.seconds();
    const auto bytes = now_.bytes();
    if (!times_.pending()) {
      // Numbers that are not negative are in order as their bits are.
      std::vector<std::uint64_t> numbers;
      for (const double one : seconds) numbers.push_back(std::bit_cast<std::uint64_t>(one));
      numbers.insert(numbers.end(), bytes.begin(), bytes.end());
      std::vector<Combine> how(seconds.size(), Combine::max);
      how.resize(numbers.size(), Combine::sum);
      times_.start(space, tag, rank, static_cast<int>(space.in_world.size()), numbers, how);
    }
    if (!times_.test()) return false;
    const auto result = times_.result();
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = std::bit_cast<double>(result[i]);
      bytes[i] = result[seconds.size() + i];
    }
    return true;
  }
  /// The round is over and agreed on.
  void end_round(std::size_t bytes, Offer offer) {
    now_.end_round();
    if (!now_.complete()) {
      if (!std::exchange(tried_, true)) trust_model(bytes, offer);
    } else if (!otherwise_.empty()) {
      end_trial();
    } else {
      before_.reset();
      earlier_ = nullptr;
      until_review_ = UINT64_MAX;
      if (terms_.budget.limited() && key_.mpi && now_.choices().size() > 1) wait_for_review();
    }
  }

 private:
  // Calls after which what was decided is looked at again (at most 130 calls), four times as many, and so on.
  static constexpr std::uint64_t kFirstReview = 4000;
  static constexpr unsigned kReviews = 16;

  // By the model: over what it gives a flat exchange, or over what MPI has taken.
  static constexpr double kSureGain = 1.3;

  // Along edges MPI's first calls make connections, which takes as long as dozens of a plan's calls. Where a
  // plan should gain far more its trial can wait so long.
  static constexpr double kFarGain = 1.5;
  static constexpr std::uint64_t kPutOff = 25;

  static bool is_mpi(const Choice& choice) { return choice.algorithm == Algorithm::mpi; }

  [[nodiscard]] ByteRange bytes_that_count() const {
    if (key_.uniform) return {};
    const std::uint64_t blocks = terms_.source.blocks(key_.edges);
    return {key_.size_class * blocks, std::max<std::uint64_t>(2 * key_.size_class, 1) * blocks - 1};
  }

  [[nodiscard]] Autotuning compete(std::vector<Choice> choices) const {
    return Autotuning(std::move(choices), terms_.budget, bytes_that_count());
  }

  [[nodiscard]] Autotuning trial(Choice plan, std::vector<double> mpi) const {
    return Autotuning::trial(std::move(plan), terms_.budget, bytes_that_count(), std::move(mpi),
                             terms_.source.memory_first());
  }

  void begin_trial(Choice plan, std::vector<double> mpi = {}) {
    otherwise_ = now_.choices();
    now_ = trial(std::move(plan), std::move(mpi));
    tried_ = true;
  }

  /// Goes on where an earlier run has left off.
  void begin_from(const SizeResult& earlier, Offer offer) {
    const auto has = [&](const Choice& choice) { return terms_.source.possible(choice, offer.memory); };
    switch (start_from(earlier)) {
      case ResultsStart::trial:
        if (!has(earlier.plans.front().choice)) return;
        begin_trial(earlier.plans.front().choice);
        earlier_ = &earlier;
        break;
      case ResultsStart::mpi: {
        std::vector<PlanResult> known = earlier.plans;
        std::erase_if(known,
                      [&](const PlanResult& plan) { return !is_mpi(plan.choice) && !has(plan.choice); });
        if (!terms_.source.memory_first())  // not that of std::ranges: clang 14 does not compile it
          std::stable_partition(known.begin(), known.end(),
                                [](const auto& plan) { return is_mpi(plan.choice); });
        if (known.size() < 2) return;  // nothing that MPI could be compared with later
        now_ = Autotuning::finished(known);
        earlier_ = &earlier;
        wait_for_review();
        break;
      }
      case ResultsStart::compete: {
        std::vector<Choice> choices = now_.choices();
        for (const PlanResult& plan : earlier.plans) {
          if (plan.given_up && !is_mpi(plan.choice)) std::erase(choices, plan.choice);
        }
        if (choices.size() == now_.choices().size() || choices.size() < 2) return;
        now_ = compete(std::move(choices));
      }
    }
    ++terms_.used.sizes;
  }

  /// A program that did not ask for plans has the calls of one that should be far faster than each rank's
  /// messages to all others, which is what MPI's all-to-all comes to at least, or than what MPI has taken
  /// where that is known. The plan's calls have to show that it is.
  void trust_model(std::size_t bytes, Offer offer) {
    const auto& choices = now_.choices();
    const auto mpi = std::ranges::find_if(choices, is_mpi);
    if (mpi == choices.end()) return;
    if (terms_.source.memory_first()) return begin_trial(choices.front());
    const auto at = static_cast<std::size_t>(mpi - choices.begin());
    const std::vector<Candidate> ranked =
        terms_.source.ranked(bytes, {false, offer.memory, false, key_.edges});
    const auto flat = std::ranges::find(ranked, Choice{}, &Candidate::choice);
    const double known = now_.times().median(at);
    const double other = known > 0 ? known : flat != ranked.end() ? flat->seconds : 0;
    const auto best = ranked.begin() + (key_.edges && ranked.size() > 1 && flat == ranked.begin() ? 1 : 0);
    if (std::ranges::find(choices, best->choice) == choices.end() || other < kSureGain * best->seconds)
      return;
    begin_trial(best->choice, now_.times().of(at));
    if (key_.edges && known <= 0 && other >= kFarGain * best->seconds) now_.put_off(kPutOff);
  }

  void end_trial() {
    std::vector<Choice> otherwise = std::exchange(otherwise_, {});
    const bool holds = now_.ranking().front() == 0;
    if (!holds && std::exchange(earlier_, nullptr) != nullptr) ++terms_.used.refuted;
    if (holds || terms_.source.one_choice()) return wait_for_review();  // there both have been tried
    now_ = compete(std::move(otherwise));
  }

  /// Also in a program that asked for plans: what is known may hold no more.
  void wait_for_review() {
    until_review_ = reviews_ < kReviews ? kFirstReview << (2 * reviews_) : UINT64_MAX;
    ++reviews_;
  }

  Terms& terms_;
  ProbeKey key_;
  Autotuning now_;
  SmallReduce times_;                        // slowest times and sums of bytes
  std::unique_ptr<Autotuning> before_;       // what was decided, while that is being looked at again
  std::uint64_t until_review_ = UINT64_MAX;  // calls, once it is decided
  unsigned reviews_ = 0;
  const SizeResult* earlier_ = nullptr;  // as long as nothing else is known
  std::vector<Choice> otherwise_;  // what competes when a trial's plan does not hold; empty: it is no trial
  bool tried_ = false;             // there was a trial, or there shall be none
};

}  // namespace tapa
