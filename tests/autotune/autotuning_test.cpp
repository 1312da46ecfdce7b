// The competition of plans, with times made up.
#include "autotune/autotuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace tapa {
namespace {

const std::vector<std::string> kNames{"linear", "mpi", "pairwise", "bruck:radix=2"};

std::vector<Choice> choices(std::size_t count) {
  std::vector<Choice> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(parse_choice(kNames[i]));
  return list;
}

std::size_t index_of(const Choice& choice) {
  const std::vector<Choice> all = choices(kNames.size());
  return static_cast<std::size_t>(std::ranges::find(all, choice) - all.begin());
}

/// Makes all calls until a plan has won; time(plan, its call) is what a call takes. Returns how often each
/// was called.
template <typename Time>
std::vector<std::size_t> run(Autotuning& autotuning, std::size_t plans, const Time& time,
                             std::uint64_t bytes = 0) {
  std::vector<std::size_t> calls(plans);
  while (!autotuning.complete()) {
    while (!autotuning.round_over()) {
      const std::size_t plan = index_of(autotuning.next());
      autotuning.record(time(plan, calls[plan]), bytes);
      ++calls[plan];
    }
    autotuning.end_round();
  }
  return calls;
}

/// All ways to give each of `plans` plans one of the factors.
std::vector<std::vector<double>> all_times(std::size_t plans, double unit) {
  const std::vector<double> factors{1, 1.02, 1.08, 1.15, 1.35, 1.8, 3};
  std::vector<std::vector<double>> all;
  const auto count = static_cast<std::size_t>(std::pow(factors.size(), plans));
  for (std::size_t n = 0; n < count; ++n) {
    std::vector<double> times;
    for (std::size_t rest = n, i = 0; i < plans; ++i, rest /= factors.size())
      times.push_back(unit * factors[rest % factors.size()]);
    all.push_back(times);
  }
  return all;
}

TEST(Autotuning, TheFastestWinsWhateverTheTimes) {
  for (const double unit : {1e-6, 1e-3, 1e-1, 10.0}) {
    for (std::size_t plans = 1; plans <= 3; ++plans) {
      for (const auto& times : all_times(plans, unit)) {
        Autotuning autotuning(choices(plans));
        const auto calls = run(autotuning, plans, [&](std::size_t plan, std::size_t) { return times[plan]; });
        const double best = *std::ranges::min_element(times);
        const auto& ranking = autotuning.ranking();
        ASSERT_EQ(ranking.size(), plans);
        ASSERT_LE(times[ranking[0]], best / (1 - Autotuning::kGain));
        if (times[0] * (1 - Autotuning::kGain) <= best) {
          ASSERT_EQ(ranking[0], 0U);
        }
        // The rest in order, and every plan once.
        for (std::size_t i = 2; i < plans; ++i) ASSERT_LE(times[ranking[i - 1]], times[ranking[i]] + 1e-12);
        auto sorted = ranking;
        std::ranges::sort(sorted);
        for (std::size_t i = 0; i < plans; ++i) ASSERT_EQ(sorted[i], i);
      }
    }
  }
}

/// After how many calls a plan that always takes `seconds` is given up, the best taking `best`.
std::size_t most_calls(double seconds, double best) {
  std::size_t calls = 0;
  bool undecided = false;
  for (const Autotuning::Round& round : Autotuning::kRounds) {
    calls += undecided ? std::min(round.calls, Autotuning::kUndecided) : round.calls;
    const bool clear =
        seconds > best * (1 + round.slack) || seconds > best * (1 + Autotuning::kTie) + round.disturbance;
    if (round.slack > 0 && clear && seconds > best + round.margin) return calls;
    undecided = clear;
  }
  return calls;
}

TEST(Autotuning, WhatASlowerPlanCostsIsBounded) {
  EXPECT_EQ(most_calls(2, 1), 1U);
  EXPECT_EQ(most_calls(0.012, 0.005), 3U);  // by 100 %
  EXPECT_EQ(most_calls(1.04, 1), 65U);
  EXPECT_EQ(most_calls(1e-5, 4e-6), 11U);    // over 5 us
  EXPECT_EQ(most_calls(2e-6, 0.9e-6), 13U);  // never over the margin, but soon undecided
  EXPECT_EQ(most_calls(1e-5, 0.94e-5), 35U);
  for (const double unit : {1e-5, 1e-2, 1.0}) {
    for (const auto& times : all_times(3, unit)) {
      const double best = *std::ranges::min_element(times);
      Autotuning autotuning(choices(3));
      const auto calls = run(autotuning, 3, [&](std::size_t plan, std::size_t) { return times[plan]; });
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_LE(calls[i], most_calls(times[i], best)) << times[i] << " against " << best;
      }
    }
  }
}

TEST(Autotuning, FirstCallsAndDisturbancesDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 4; ++fastest) {
    for (std::size_t disturbed = 0; disturbed < 65; ++disturbed) {
      Autotuning autotuning(choices(4));
      run(autotuning, 4, [&](std::size_t plan, std::size_t call) {
        if (call == 0) return plan == fastest ? 0.1 : 1e-3;  // it makes plans and connections
        return (plan == fastest ? 1e-5 : 1.3e-5) * (call == disturbed && plan == fastest ? 100 : 1);
      });
      EXPECT_EQ(autotuning.ranking()[0], fastest) << disturbed;
    }
  }
}

// Short calls: most of the first ones meet something that makes them many times as long.
TEST(Autotuning, ManyDisturbedCallsAtFirstDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 4; ++fastest) {
    Autotuning autotuning(choices(4));
    run(autotuning, 4, [&](std::size_t plan, std::size_t call) {
      return plan != fastest ? 2e-5 : call < 5 ? 6e-5 : 5e-6;
    });
    EXPECT_EQ(autotuning.ranking()[0], fastest);
  }
}

// The first call may take hundreds of times as long as those of a plan that has nothing to prepare.
TEST(Autotuning, LongFirstCallsDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    Autotuning autotuning(choices(3));
    run(autotuning, 3, [&](std::size_t plan, std::size_t call) {
      return plan != fastest ? 2e-6 : call == 0 ? 4e-4 : 1e-6;
    });
    EXPECT_EQ(autotuning.ranking()[0], fastest);
  }
}

// Ranks are done with some plans at different times: a call of 5 us behind such a plan's call takes 20.
TEST(Autotuning, CallsBehindAnotherPlansDoNotDecide) {
  for (std::size_t plans = 2; plans <= kNames.size(); ++plans) {
    for (std::size_t fastest = 0; fastest < plans; ++fastest) {
      Autotuning autotuning(choices(plans));
      std::size_t before = fastest;
      run(autotuning, plans, [&](std::size_t plan, std::size_t call) {
        const bool held_up = std::exchange(before, plan) != fastest;
        const double own = plan == fastest ? (call < 2 ? 6e-5 : 5e-6) : 1.6e-5;
        return own + (plan == fastest && held_up ? 1.5e-5 : 0);
      });
      EXPECT_EQ(autotuning.ranking()[0], fastest) << plans;
    }
  }
}

TEST(Autotuning, OfLongCallsFewDecide) {
  for (const auto& [unit, expected] :
       {std::pair(1e-6, 65U), {0.02, 33U}, {0.07, 9U}, {0.2, 5U}, {10.0, 5U}}) {
    Autotuning autotuning(choices(2));
    const auto calls =
        run(autotuning, 2, [&](std::size_t plan, std::size_t) { return unit * (plan == 0 ? 1.045 : 1.0); });
    EXPECT_EQ(autotuning.ranking(), (std::vector<std::size_t>{1, 0})) << unit;
    EXPECT_EQ(calls[1], expected) << unit;
  }
}

TEST(Autotuning, ASmallGainIsNone) {
  for (const double gain : {0.98, 0.95}) {
    Autotuning autotuning(choices(2));
    run(autotuning, 2, [&](std::size_t plan, std::size_t) { return plan == 0 ? 1e-4 : gain * 1e-4; });
    EXPECT_EQ(autotuning.ranking()[0], gain > 0.97 ? 0U : 1U);
  }
}

TEST(Autotuning, OneChoiceIsDecidedAtOnce) {
  const Autotuning autotuning(choices(1));
  EXPECT_TRUE(autotuning.complete());
  EXPECT_EQ(autotuning.ranking(), std::vector<std::size_t>{0});
}

TEST(Autotuning, AgreedTimesCountNotThisRanks) {
  Autotuning autotuning(choices(2));
  while (!autotuning.complete()) {
    std::vector<std::size_t> plans;
    while (!autotuning.round_over()) {
      plans.push_back(index_of(autotuning.next()));
      autotuning.record(plans.back() == 0 ? 1e-5 : 2e-5, 0);
    }
    for (std::size_t call = 0; call < plans.size(); ++call)
      autotuning.seconds()[call] = plans[call] == 0 ? 3e-5 : 2e-5;  // the first is slow on another rank
    autotuning.end_round();
  }
  EXPECT_EQ(autotuning.ranking()[0], 1U);
}

TEST(Autotuning, CallsOfAnotherSizeDoNotCount) {
  Autotuning autotuning(choices(2), {100, 199});
  std::size_t calls = 0;
  while (!autotuning.complete()) {
    while (!autotuning.round_over()) {
      // Every third call is of another size, and takes so long that it would decide.
      const bool other = calls++ % 3 == 2;
      const bool first = index_of(autotuning.next()) == 0;
      autotuning.record(other ? (first ? 1e-9 : 1.0) : first ? 2e-5 : 1e-5, other ? 1000 : 150);
    }
    autotuning.end_round();
  }
  EXPECT_EQ(autotuning.ranking()[0], 1U);
}

TEST(Autotuning, WithoutCallsOfItsSizeTheFirstIsTaken) {
  Autotuning autotuning(choices(3), {100, 199});
  const auto calls = run(
      autotuning, 3, [](std::size_t plan, std::size_t) { return plan == 0 ? 1.0 : 1e-3; }, 5000);
  EXPECT_EQ(autotuning.ranking(), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(calls, std::vector<std::size_t>(3, Autotuning::kFruitless));
}

// Where calls alternate between two sizes of one class, no plan gets calls of one size only.
TEST(Autotuning, AlternatingCallsDoNotDecide) {
  for (std::size_t period = 2; period <= 4; ++period) {
    Autotuning autotuning(choices(2));
    std::size_t calls = 0;
    while (!autotuning.complete()) {
      while (!autotuning.round_over()) {
        const double size = calls++ % period == 0 ? 1.9 : 1;
        autotuning.record((index_of(autotuning.next()) == 0 ? 1.25e-5 : 1e-5) * size, 0);
      }
      autotuning.end_round();
    }
    EXPECT_EQ(autotuning.ranking()[0], 1U) << period;
  }
}

/// A trial of `linear`, whose calls take `plan`, MPI's `mpi`; returns the order of calls.
std::string run_trial(Autotuning& autotuning, double plan, double mpi, std::uint64_t bytes = 0) {
  std::string order;
  while (!autotuning.complete()) {
    while (!autotuning.round_over()) {
      const bool is_mpi = autotuning.next().algorithm == Algorithm::mpi;
      order += is_mpi ? 'M' : 'P';
      autotuning.record(is_mpi ? mpi : plan, bytes);
    }
    autotuning.end_round();
  }
  return order;
}

TEST(AutotuningTrial, AWinnerOfAnEarlierRunBeginsAndMustWinAgain) {
  for (const auto& [plan, stays] : std::vector<std::pair<double, bool>>{
           {0.5e-5, true}, {0.95e-5, true}, {0.97e-5, false}, {3e-5, false}}) {
    for (ProbeBudget budget : {ProbeBudget(), ProbeBudget(0)}) {
      Autotuning autotuning = Autotuning::trial(choices(1)[0], budget);
      EXPECT_EQ(run_trial(autotuning, plan, 1e-5), "PPPPPMMMMM");
      EXPECT_EQ(autotuning.ranking()[0] == 0, stays) << plan;
    }
  }
}

TEST(AutotuningTrial, APlanThatStaysAtATieIsGivenUpWhereMpiIsClearlyFaster) {
  for (const auto& [plan, stays] :
       std::vector<std::pair<double, bool>>{{0.9e-5, true}, {1.03e-5, true}, {1.06e-5, false}}) {
    ProbeBudget budget(0);
    Autotuning autotuning = Autotuning::trial(choices(1)[0], budget, {}, {}, true);
    EXPECT_EQ(run_trial(autotuning, plan, 1e-5), "PPPPPMMMMM");
    EXPECT_EQ(autotuning.ranking()[0] == 0, stays) << plan;
  }
}

TEST(AutotuningTrial, PaysForWhatItsCallsTakeLonger) {
  ProbeBudget budget(1);  // 10 ms to spend
  Autotuning autotuning = Autotuning::trial(choices(1)[0], budget);
  run_trial(autotuning, 3e-3, 1e-3);  // 5 calls, 2 ms each
  EXPECT_GT(budget.calls_before(1e-3, 1e-3, 1e-3), 0U);
  EXPECT_EQ(ProbeBudget(1).calls_before(1e-3, 1e-3, 1e-3), 0U);
}

TEST(AutotuningTrial, GoesToMpiWhenNoCallCounts) {
  ProbeBudget budget;
  Autotuning autotuning = Autotuning::trial(choices(1)[0], budget, {100, 199});
  EXPECT_EQ(run_trial(autotuning, 1e-6, 1e-5, 200).size(), 10 * Autotuning::kFruitless);
  EXPECT_EQ(autotuning.ranking()[0], 1U);
}

TEST(AutotuningKnown, AFinishedOneTellsWhatItWasGiven) {
  const std::vector<PlanResult> plans{{parse_choice("mpi"), 1e-5, 65, false},
                                      {parse_choice("linear"), 2e-5, 3, true}};
  const Autotuning autotuning = Autotuning::finished(plans);
  EXPECT_TRUE(autotuning.complete());
  EXPECT_EQ(autotuning.ranking(), (std::vector<std::size_t>{0, 1}));
  EXPECT_DOUBLE_EQ(autotuning.times().median(1), 2e-5);
  const std::vector<PlanResult> known = autotuning.known();
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known[0].samples, 65);
  EXPECT_TRUE(known[1].given_up);
}

TEST(AutotuningKnown, BeforeTheEndTheBestOfManyCallsIsFirst) {
  Autotuning autotuning(choices(4));
  EXPECT_TRUE(autotuning.known().empty()) << "nothing was called";
  const std::vector<double> times{2e-5, 3e-5, 1e-5, 1.0};
  for (int round = 0; round < 4; ++round) {
    while (!autotuning.round_over()) autotuning.record(times[index_of(autotuning.next())], 0);
    autotuning.end_round();
  }
  ASSERT_FALSE(autotuning.complete());
  const std::vector<PlanResult> known = autotuning.known();
  ASSERT_EQ(known.size(), 4U);
  EXPECT_EQ(to_string(known[0].choice), "pairwise");
  EXPECT_EQ(to_string(known[3].choice), "bruck");
  EXPECT_TRUE(known[3].given_up);
  EXPECT_FALSE(known[0].given_up);
}

}  // namespace
}  // namespace tapa
