/// @file
/// A competition of plans for one size of blocks: the first calls probe the candidates, and what is clearly
/// slower is given up. Pure: no MPI; the caller sees to it that all ranks go on with the same times.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "autotune/probe_budget.hpp"
#include "autotune/results.hpp"
#include "plan/median.hpp"

namespace tapa {

/// Seconds of calls, as the ranks have agreed on them, by index of the plan.
class PlanTimes {
 public:
  explicit PlanTimes(std::vector<Choice> choices) : choices_(std::move(choices)), plans_(choices_.size()) {}

  [[nodiscard]] const std::vector<Choice>& choices() const { return choices_; }
  [[nodiscard]] const std::vector<double>& of(std::size_t plan) const { return plans_[plan].seconds; }
  void add(std::size_t plan, double seconds) { plans_[plan].seconds.push_back(seconds); }
  /// What is known of a plan otherwise; `calls`: more than there are times, or 0.
  void set(std::size_t plan, std::vector<double> seconds, int calls = 0) {
    plans_[plan] = {std::move(seconds), static_cast<std::size_t>(calls)};
  }

  /// Calls of a plan.
  [[nodiscard]] std::size_t calls_of(std::size_t plan) const {
    return std::max(plans_[plan].calls, of(plan).size());
  }
  /// Median without the first where there are more; 0 when it was never called.
  [[nodiscard]] double median(std::size_t plan) const {
    const std::vector<double>& times = of(plan);
    if (times.empty()) return 0;
    return tapa::median({times.begin() + (times.size() > 1 ? 1 : 0), times.end()});
  }
  /// The shortest, 0 when it was never called.
  [[nodiscard]] double least(std::size_t plan) const {
    return of(plan).empty() ? 0 : *std::ranges::min_element(of(plan));
  }

 private:
  struct Plan {
    std::vector<double> seconds;
    std::size_t calls = 0;  // of an earlier run
  };
  std::vector<Choice> choices_;
  std::vector<Plan> plans_;
};

/// Of calls that count, all ranks' together.
struct ByteRange {
  std::uint64_t smallest = 0;
  std::uint64_t largest = UINT64_MAX;
};

/// Rounds of calls. After each the ranks agree on its times, and plans whose least time is over the best
/// one's by more than `slack` and `margin` are given up; those over the slack alone are undecided, and called
/// kUndecided times in the next round. So what a loser costs is bounded: one that takes f times as long as
/// the best is called until its round's slack is below f - 1, then until its calls exceed the margin.
class Autotuning {
 public:
  struct Round {
    std::size_t calls;   ///< of each plan that is left and decided
    double slack;        ///< share of the best plan's time
    double disturbance;  ///< seconds: it is taken that nothing makes all calls of a plan so much longer
    double margin;       ///< seconds: few short calls tell little, as most of them may have been disturbed
  };
  /// Of long calls one tells as much as many. First calls make plans and connections.
  static constexpr std::array<Round, 7> kRounds{{{1, 100, 0.25, 0.25},
                                                 {2, 1.0, 0.01, 1e-4},
                                                 {2, 0.5, 0.01, 5e-5},
                                                 {4, 0.2, 0.01, 2e-5},
                                                 {8, 0.1, 0.01, 1e-5},
                                                 {16, 0.05, 0.01, 5e-6},
                                                 {32, 0.0, 0.01, 0}}};
  /// Seconds of calls of each plan that is left, kFewCalls at least, after which more are not worth it.
  static constexpr double kEnough = 0.5;
  /// Calls in a row at the end of a round of an undecided plan: two, as the first may be disturbed.
  static constexpr std::size_t kUndecided = 2;
  /// What is a tie however long calls are.
  static constexpr double kTie = 0.05;
  /// A plan must be this much faster than the first one to be preferred to it.
  static constexpr double kGain = 0.04;
  /// Rounds that may come to nothing before the first plan is taken as it is.
  static constexpr std::size_t kFruitless = 3;

  // With a budget there is a round of MPI's own before all others, and before each other one MPI, or a plan
  // known to be faster, carries out as many calls as the budget wants for it.
  static constexpr std::size_t kMpiCalls = 5;  ///< in that round
  /// A plan takes MPI's place before the end after so many calls, if it is so much faster.
  static constexpr std::size_t kFewCalls = 5;
  static constexpr double kEarlyGain = 0.15;
  static constexpr std::size_t kSureCalls = 17;
  /// What a plan's first call is taken to need: so many times MPI's time, and as many seconds to make it.
  static constexpr double kUnknown = 3;
  static constexpr double kMaking = 3e-4;
  /// What agreeing is taken to need at most, seconds: about a short call.
  static constexpr double kAgreeing = 5e-4;

  /// Precondition: at least one choice; the first is what would be taken without autotuning.
  explicit Autotuning(std::vector<Choice> choices, ByteRange counts = {})
      : times_(std::move(choices)), counts_(counts), left_(this->choices().size()), undecided_(left_.size()) {
    std::iota(left_.begin(), left_.end(), 0);
    if (left_.size() == 1) {
      finish();
    } else {
      begin_round();
    }
  }

  /// With a limited budget, which must outlive it, MPI is what would be taken, if it is among the choices.
  Autotuning(std::vector<Choice> choices, ProbeBudget& budget, ByteRange counts = {})
      : Autotuning(std::move(choices), counts) {
    const auto mpi = std::ranges::find(this->choices(), Algorithm::mpi, &Choice::algorithm);
    if (complete_ || !budget.limited() || mpi == this->choices().end()) return;
    budget_ = &budget;
    preferred_ = incumbent_ = static_cast<std::size_t>(mpi - this->choices().begin());
    stage_ = Stage::measuring;
    begin_round();
  }

  /// A plan that should be faster than MPI carries out the next kMpiCalls calls, MPI as many if its times
  /// (`mpi`) are not known. The plan stays if it is faster, or if MPI is not (`stays_at_a_tie`); else MPI
  /// wins. What the calls have taken longer a limited budget, which must outlive it, pays.
  [[nodiscard]] static Autotuning trial(Choice plan, ProbeBudget& budget, ByteRange counts = {},
                                        std::vector<double> mpi = {}, bool stays_at_a_tie = false) {
    Autotuning autotuning({std::move(plan), {Algorithm::mpi}}, counts);
    autotuning.times_.set(1, std::move(mpi));
    if (budget.limited()) autotuning.budget_ = &budget;
    autotuning.preferred_ = autotuning.incumbent_ = 1;
    autotuning.stays_at_a_tie_ = stays_at_a_tie;
    autotuning.stage_ = Stage::trying;
    autotuning.begin_round();
    return autotuning;
  }

  /// Of a trial: the plan carries out so many calls before it, which are no probes.
  void put_off(std::uint64_t calls) {
    incumbent_ = 0;
    rest_ = calls;
  }

  /// Complete, with the result of an earlier run, the best plan first. Precondition: there is one.
  [[nodiscard]] static Autotuning finished(const std::vector<PlanResult>& best_first) {
    std::vector<Choice> choices;
    for (const PlanResult& plan : best_first) choices.push_back(plan.choice);
    Autotuning autotuning(std::move(choices));
    autotuning.ranking_ = std::exchange(autotuning.left_, {});
    for (std::size_t i = 0; i < best_first.size(); ++i) {
      const double seconds = best_first[i].seconds;
      autotuning.times_.set(i, std::vector<double>(seconds > 0 ? 1 : 0, seconds), best_first[i].samples);
    }
    autotuning.complete_ = true;
    return autotuning;
  }

  /// What is known of the plans called, the best first; before the end those of few calls, given up last.
  [[nodiscard]] std::vector<PlanResult> known() const {
    std::vector<std::size_t> order = ranking_;  // before the end: those given up
    if (!complete_) {
      std::vector<std::size_t> left = left_;
      std::ranges::stable_sort(left, {}, [&](std::size_t i) {
        return std::pair(times_.calls_of(i) < kFewCalls, times_.median(i));
      });
      order.insert(order.begin(), left.begin(), left.end());
    }
    std::vector<PlanResult> plans;
    for (const std::size_t i : order) {
      if (times_.calls_of(i) == 0) continue;
      const bool given_up = complete_ ? i != ranking_.front() : std::ranges::find(left_, i) == left_.end();
      const auto calls = static_cast<int>(std::min<std::size_t>(times_.calls_of(i), INT32_MAX));
      plans.push_back({choices()[i], times_.median(i), calls, given_up});
    }
    return plans;
  }

  /// What calls have taken in rounds that are over.
  [[nodiscard]] const PlanTimes& times() const { return times_; }
  [[nodiscard]] const std::vector<Choice>& choices() const { return times_.choices(); }

  /// Whether nothing is left to probe.
  [[nodiscard]] bool complete() const { return complete_; }
  /// Whether all calls of a round were made: the ranks must agree on its times.
  [[nodiscard]] bool round_over() const { return !complete_ && calls_ == seconds_.size(); }
  /// Whether the next call is no probe: the budget does not allow the round yet. Never when a round is over.
  [[nodiscard]] bool resting() const { return rest_ > 0; }
  /// Such a call was made.
  void count_rest() {
    if (--rest_ > 0) return;
    const double calls = static_cast<double>(rested_);
    const double each = times_.median(incumbent_);
    budget_->pay(calls * each, calls * (each - times_.median(preferred_)));
  }

  /// The plan of the next call. Precondition: neither complete() nor round_over().
  [[nodiscard]] const Choice& next() const { return choices()[resting() ? incumbent_ : order_[calls_]]; }
  /// That call has taken so long on this rank, which has sent so many bytes. Precondition: not resting().
  void record(double seconds, std::uint64_t bytes) {
    seconds_[calls_] = seconds;
    bytes_[calls_] = bytes;
    ++calls_;
  }

  /// This rank's of the round, call by call; to be replaced by the slowest rank's, and by all ranks' sum.
  [[nodiscard]] std::span<double> seconds() { return seconds_; }
  [[nodiscard]] std::span<std::uint64_t> bytes() { return bytes_; }
  /// Gives up what is clearly slower and begins the next round. Precondition: round_over().
  void end_round() {
    if (!take_times()) return ++fruitless_ == kFruitless ? finish() : begin_round();
    if (budget_ != nullptr) take_stock();
    if (stage_ == Stage::measuring) {
      stage_ = Stage::competing;
      return begin_round();
    }
    if (stage_ == Stage::trying) {  // by the medians
      if (stays_at_a_tie_) preferred_ = 0;
      return finish();
    }
    give_up_slow();
    if (++round_ == kRounds.size() || left_.size() == 1 || know_enough()) return finish();
    begin_round();
  }

  /// Indices of all choices, the best first. Precondition: complete().
  [[nodiscard]] const std::vector<std::size_t>& ranking() const { return ranking_; }

 private:
  enum class Stage : std::uint8_t {
    measuring,  // MPI alone
    trying,     // see trial()
    competing,
  };

  void begin_round() {
    if (stage_ == Stage::competing) {
      order_ = round_of_all();
    } else if (stage_ == Stage::measuring) {  // calls that the program would make anyway
      order_.assign(kMpiCalls, preferred_);
    } else {  // in a row: few calls come behind another plan's, and a program that makes few has the fast
              // ones
      order_.assign(kMpiCalls, 0);
      if (times_.of(preferred_).empty()) order_.insert(order_.end(), kMpiCalls, preferred_);
    }
    seconds_.assign(order_.size(), 0);
    bytes_.assign(order_.size(), 0);
    calls_ = 0;
    const double mpi = times_.median(preferred_);
    if (stage_ != Stage::competing || budget_ == nullptr || mpi <= 0) return;
    double cost = std::min(mpi, kAgreeing);
    for (const std::size_t choice : order_) {
      const double expected = times_.calls_of(choice) > 0 ? times_.median(choice) : kUnknown * mpi + kMaking;
      cost += std::max(expected - mpi, 0.0);
    }
    rest_ = rested_ = budget_->calls_before(cost, times_.median(incumbent_), mpi);
  }

  // Each pass begins with another candidate, in no regular order: calls of a program often alternate too.
  [[nodiscard]] std::vector<std::size_t> round_of_all() const {
    std::vector<std::size_t> order;
    std::uint64_t state = round_ * kFruitless + fruitless_ + 1;
    for (std::size_t pass = 0; pass < kRounds[round_].calls; ++pass) {
      state =
          state * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's linear congruential generator
      const std::size_t first = round_ == 0 ? 0 : (state >> 33) % left_.size();
      for (std::size_t i = 0; i < left_.size(); ++i) {
        const std::size_t choice = left_[(first + i) % left_.size()];
        if (!undecided_[choice]) order.push_back(choice);
      }
    }
    // In a row: a call behind another plan's meets ranks that are still busy with that.
    for (const std::size_t choice : left_)
      if (undecided_[choice]) order.insert(order.end(), std::min(kUndecided, kRounds[round_].calls), choice);
    return order;
  }

  /// False: of some plan that is decided no call counts.
  [[nodiscard]] bool take_times() {
    const auto counts = [&](std::size_t call) {
      return bytes_[call] >= counts_.smallest && bytes_[call] <= counts_.largest;
    };
    std::vector<bool> timed(choices().size());
    for (std::size_t call = 0; call < order_.size(); ++call)
      timed[order_[call]] = timed[order_[call]] || counts(call);
    const auto needs_none = [&](std::size_t i) {
      return undecided_[i] || (stage_ == Stage::measuring && i != preferred_) ||
             (stage_ == Stage::trying && !times_.of(i).empty());
    };
    if (!std::ranges::all_of(left_, [&](std::size_t i) { return timed[i] || needs_none(i); })) return false;
    for (std::size_t call = 0; call < order_.size(); ++call) {
      if (counts(call)) times_.add(order_[call], seconds_[call]);
    }
    return true;
  }

  [[nodiscard]] bool know_enough() const {
    return std::ranges::all_of(left_, [&](std::size_t i) {
      const std::size_t calls = times_.calls_of(i);
      return calls >= kFewCalls && static_cast<double>(calls) * times_.least(i) >= kEnough;
    });
  }

  void give_up_slow() {
    double best = times_.least(left_.front());
    for (const std::size_t i : left_) best = std::min(best, times_.least(i));
    const Round& round = kRounds[round_];
    const double slack = std::min(round.slack, kTie + round.disturbance / std::max(best, 1e-9));
    if (slack <= 0) return;  // the last round: medians decide
    // MPI also by the medians: one lucky call of another plan is no reason to give it up.
    const auto stays = [&] {
      return budget_ != nullptr && std::ranges::none_of(left_, [&](std::size_t i) {
               return times_.calls_of(i) >= kFewCalls &&
                      times_.median(preferred_) > (1 + slack) * times_.median(i);
             });
    };
    std::vector<std::size_t> slow;
    for (const std::size_t i : left_) {
      const double least = times_.least(i);
      const bool over = least > (1 + slack) * best && !(i == preferred_ && stays());
      undecided_[i] = over && least <= best + round.margin;
      if (over && !undecided_[i]) slow.push_back(i);
    }
    std::ranges::stable_sort(slow, {}, [&](std::size_t i) { return times_.least(i); });
    ranking_.insert(ranking_.begin(), slow.begin(), slow.end());
    std::erase_if(left_, [&](std::size_t i) { return std::ranges::find(slow, i) != slow.end(); });
  }

  void finish() {
    const auto prefer = [&] {
      const auto preferred = std::ranges::find(left_, preferred_);
      if (preferred != left_.end()) std::rotate(left_.begin(), preferred, preferred + 1);
    };
    prefer();
    if (!times_.of(left_.front()).empty()) {
      std::ranges::stable_sort(left_, {}, [&](std::size_t i) { return times_.median(i); });
      if (times_.median(left_.front()) >= (1 - kGain) * times_.median(preferred_)) prefer();
    }
    ranking_.insert(ranking_.begin(), left_.begin(), left_.end());
    complete_ = true;
  }

  /// Of the round that has ended, by the agreed times: what it has cost, and what is known to be the fastest.
  void take_stock() {
    const double mpi = times_.median(preferred_);
    for (std::size_t call = 0; call < order_.size(); ++call) {
      const bool known = mpi > 0 && order_[call] != preferred_;
      budget_->pay(seconds_[call], known ? seconds_[call] - mpi : 0);
    }
    budget_->pay(0, std::min(mpi, kAgreeing));
    incumbent_ = preferred_;
    double best = mpi;
    for (const std::size_t i : left_) {
      const double gain = times_.calls_of(i) >= kSureCalls ? kGain : kEarlyGain;
      if (times_.calls_of(i) < kFewCalls || times_.median(i) >= std::min(best, (1 - gain) * mpi)) continue;
      best = times_.median(i);
      incumbent_ = i;
    }
  }

  PlanTimes times_;
  ByteRange counts_;
  Stage stage_ = Stage::competing;
  std::vector<std::size_t> left_;  // not given up, ascending
  std::vector<bool> undecided_;    // of all
  std::size_t round_ = 0;
  std::size_t fruitless_ = 0;
  ProbeBudget* budget_ = nullptr;  // null where probing costs what it costs
  std::size_t preferred_ = 0;      // unless another one is clearly faster
  std::size_t incumbent_ = 0;      // what is known to be the fastest
  bool stays_at_a_tie_ = false;
  std::uint64_t rest_ = 0;
  std::uint64_t rested_ = 0;
  std::vector<std::size_t> order_;  // choices of the round's calls
  std::vector<double> seconds_;
  std::vector<std::uint64_t> bytes_;
  std::size_t calls_ = 0;             // made in this round
  std::vector<std::size_t> ranking_;  // until complete: those given up, the last one first
  bool complete_ = false;
};

}  // namespace tapa
