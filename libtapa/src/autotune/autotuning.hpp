/// @file
/// A competition of plans for one size of blocks: the first calls probe the candidates, and what is clearly
/// slower is given up. Pure: no MPI; the caller sees to it that all ranks go on with the same times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "autotune/plan_times.hpp"
#include "autotune/probe_budget.hpp"
#include "autotune/results.hpp"
#include "plan/choose.hpp"

namespace tapa {

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

  /// Precondition: at least one choice; the first is what would be taken without autotuning. Calls of less
  /// than `smallest` or more than `largest` bytes, all ranks' together, do not count.
  explicit Autotuning(std::vector<Choice> choices, std::uint64_t smallest = 0,
                      std::uint64_t largest = UINT64_MAX);

  /// With a limited budget, which must outlive it, MPI is what would be taken, if it is among the choices.
  Autotuning(std::vector<Choice> choices, ProbeBudget& budget, std::uint64_t smallest = 0,
             std::uint64_t largest = UINT64_MAX);

  /// A plan that should be faster than MPI carries out the next kMpiCalls calls, MPI as many if its times
  /// (`mpi`) are not known. The plan stays if it is faster, or if MPI is not (`stays_at_a_tie`); else MPI
  /// wins. What the calls have taken longer a limited budget, which must outlive it, pays.
  [[nodiscard]] static Autotuning trial(Choice plan, ProbeBudget& budget, std::uint64_t smallest = 0,
                                        std::uint64_t largest = UINT64_MAX, std::vector<double> mpi = {},
                                        bool stays_at_a_tie = false);

  /// Of a trial: the plan carries out so many calls before it, which are no probes.
  void put_off(std::uint64_t calls) {
    incumbent_ = 0;
    rest_ = calls;
  }

  /// Complete, with the result of an earlier run, the best plan first. Precondition: there is one.
  [[nodiscard]] static Autotuning finished(const std::vector<PlanResult>& best_first);

  /// What is known of the plans that were called, the best first; before the end those of few calls, then
  /// those given up, come last.
  [[nodiscard]] std::vector<PlanResult> known() const;

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
  void count_rest();

  /// The plan of the next call. Precondition: neither complete() nor round_over().
  [[nodiscard]] const Choice& next() const { return choices()[resting() ? incumbent_ : order_[calls_]]; }
  /// That call has taken so long on this rank, which has sent so many bytes. Precondition: not resting().
  void record(double seconds, std::uint64_t bytes);

  /// This rank's of the round, call by call; to be replaced by the slowest rank's, and by all ranks' sum.
  [[nodiscard]] std::span<double> seconds() { return seconds_; }
  [[nodiscard]] std::span<std::uint64_t> bytes() { return bytes_; }
  /// Gives up what is clearly slower and begins the next round. Precondition: round_over().
  void end_round();

  /// Indices of all choices, the best first. Precondition: complete().
  [[nodiscard]] const std::vector<std::size_t>& ranking() const { return ranking_; }

 private:
  enum class Stage : std::uint8_t {
    measuring,  // MPI alone
    trying,     // see trial()
    competing,
  };
  void begin_round();
  [[nodiscard]] std::vector<std::size_t> round_of_all() const;
  [[nodiscard]] bool take_times();
  [[nodiscard]] bool know_enough() const;
  void give_up_slow();
  void finish();
  void rest_before_round();
  void take_stock();

  PlanTimes times_;
  std::uint64_t smallest_;
  std::uint64_t largest_;
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
