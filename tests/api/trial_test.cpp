// The competition of plans, with times made up.
#include "api/trial.hpp"

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

/// Makes all calls of a trial; time(plan, its call) is what a call takes. Returns how often each was called.
template <typename Time>
std::vector<std::size_t> run(Trial& trial, std::size_t plans, const Time& time, std::uint64_t bytes = 0) {
  std::vector<std::size_t> calls(plans);
  while (!trial.complete()) {
    while (!trial.lap_over()) {
      const std::size_t plan = index_of(trial.next());
      trial.record(time(plan, calls[plan]), bytes);
      ++calls[plan];
    }
    trial.end_lap();
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

TEST(Trial, TheFastestWinsWhateverTheTimes) {
  for (const double unit : {1e-6, 1e-3, 1e-1, 10.0}) {
    for (std::size_t plans = 1; plans <= 3; ++plans) {
      for (const auto& times : all_times(plans, unit)) {
        Trial trial(choices(plans));
        const auto calls = run(trial, plans, [&](std::size_t plan, std::size_t) { return times[plan]; });
        const double best = *std::ranges::min_element(times);
        const auto& ranking = trial.ranking();
        ASSERT_EQ(ranking.size(), plans);
        ASSERT_LE(times[ranking[0]], best / (1 - Trial::kGain));
        if (times[0] * (1 - Trial::kGain) <= best) {
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
  bool doubtful = false;
  for (const Trial::Lap& lap : Trial::kLaps) {
    calls += doubtful ? std::min(lap.calls, Trial::kDoubtful) : lap.calls;
    const bool clear =
        seconds > best * (1 + lap.slack) || seconds > best * (1 + Trial::kTie) + lap.disturbance;
    if (lap.slack > 0 && clear && seconds > best + lap.margin) return calls;
    doubtful = clear;
  }
  return calls;
}

TEST(Trial, WhatASlowerPlanCostsIsBounded) {
  EXPECT_EQ(most_calls(2, 1), 1U);
  EXPECT_EQ(most_calls(0.012, 0.005), 3U);  // by 100 %
  EXPECT_EQ(most_calls(1.04, 1), 65U);
  EXPECT_EQ(most_calls(1e-5, 4e-6), 11U);    // over 5 us
  EXPECT_EQ(most_calls(2e-6, 0.9e-6), 13U);  // never over the margin, but soon in doubt
  EXPECT_EQ(most_calls(1e-5, 0.94e-5), 35U);
  for (const double unit : {1e-5, 1e-2, 1.0}) {
    for (const auto& times : all_times(3, unit)) {
      const double best = *std::ranges::min_element(times);
      Trial trial(choices(3));
      const auto calls = run(trial, 3, [&](std::size_t plan, std::size_t) { return times[plan]; });
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_LE(calls[i], most_calls(times[i], best)) << times[i] << " against " << best;
      }
    }
  }
}

TEST(Trial, FirstCallsAndDisturbancesDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 4; ++fastest) {
    for (std::size_t disturbed = 0; disturbed < 65; ++disturbed) {
      Trial trial(choices(4));
      run(trial, 4, [&](std::size_t plan, std::size_t call) {
        if (call == 0) return plan == fastest ? 0.1 : 1e-3;  // it makes plans and connections
        return (plan == fastest ? 1e-5 : 1.3e-5) * (call == disturbed && plan == fastest ? 100 : 1);
      });
      EXPECT_EQ(trial.ranking()[0], fastest) << disturbed;
    }
  }
}

// Short calls: most of the first ones meet something that makes them many times as long.
TEST(Trial, ManyDisturbedCallsAtFirstDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 4; ++fastest) {
    Trial trial(choices(4));
    run(trial, 4, [&](std::size_t plan, std::size_t call) {
      return plan != fastest ? 2e-5 : call < 5 ? 6e-5 : 5e-6;
    });
    EXPECT_EQ(trial.ranking()[0], fastest);
  }
}

// The first call may take hundreds of times as long as those of a plan that has nothing to prepare.
TEST(Trial, LongFirstCallsDoNotDecide) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    Trial trial(choices(3));
    run(trial, 3, [&](std::size_t plan, std::size_t call) {
      return plan != fastest ? 2e-6 : call == 0 ? 4e-4 : 1e-6;
    });
    EXPECT_EQ(trial.ranking()[0], fastest);
  }
}

// Ranks are done with some plans at different times: a call of 5 us behind such a plan's call takes 20.
TEST(Trial, CallsBehindAnotherPlansDoNotDecide) {
  for (std::size_t plans = 2; plans <= kNames.size(); ++plans) {
    for (std::size_t fastest = 0; fastest < plans; ++fastest) {
      Trial trial(choices(plans));
      std::size_t before = fastest;
      run(trial, plans, [&](std::size_t plan, std::size_t call) {
        const bool held_up = std::exchange(before, plan) != fastest;
        const double own = plan == fastest ? (call < 2 ? 6e-5 : 5e-6) : 1.6e-5;
        return own + (plan == fastest && held_up ? 1.5e-5 : 0);
      });
      EXPECT_EQ(trial.ranking()[0], fastest) << plans;
    }
  }
}

TEST(Trial, ASmallGainIsNone) {
  for (const double gain : {0.98, 0.95}) {
    Trial trial(choices(2));
    run(trial, 2, [&](std::size_t plan, std::size_t) { return plan == 0 ? 1e-4 : gain * 1e-4; });
    EXPECT_EQ(trial.ranking()[0], gain > 0.97 ? 0U : 1U);
  }
}

TEST(Trial, OneChoiceIsDecidedAtOnce) {
  const Trial trial(choices(1));
  EXPECT_TRUE(trial.complete());
  EXPECT_EQ(trial.ranking(), std::vector<std::size_t>{0});
}

TEST(Trial, AgreedTimesCountNotThisRanks) {
  Trial trial(choices(2));
  while (!trial.complete()) {
    std::vector<std::size_t> plans;
    while (!trial.lap_over()) {
      plans.push_back(index_of(trial.next()));
      trial.record(plans.back() == 0 ? 1e-5 : 2e-5, 0);
    }
    for (std::size_t call = 0; call < plans.size(); ++call)
      trial.seconds()[call] = plans[call] == 0 ? 3e-5 : 2e-5;  // the first is slow on another rank
    trial.end_lap();
  }
  EXPECT_EQ(trial.ranking()[0], 1U);
}

TEST(Trial, CallsOfAnotherSizeDoNotCount) {
  Trial trial(choices(2), 100, 199);
  std::size_t calls = 0;
  while (!trial.complete()) {
    while (!trial.lap_over()) {
      // Every third call is of another size, and takes so long that it would decide.
      const bool other = calls++ % 3 == 2;
      const bool first = index_of(trial.next()) == 0;
      trial.record(other ? (first ? 1e-9 : 1.0) : first ? 2e-5 : 1e-5, other ? 1000 : 150);
    }
    trial.end_lap();
  }
  EXPECT_EQ(trial.ranking()[0], 1U);
}

TEST(Trial, WithoutCallsOfItsSizeTheFirstIsTaken) {
  Trial trial(choices(3), 100, 199);
  const auto calls = run(
      trial, 3, [](std::size_t plan, std::size_t) { return plan == 0 ? 1.0 : 1e-3; }, 5000);
  EXPECT_EQ(trial.ranking(), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(calls, std::vector<std::size_t>(3, Trial::kFruitless));
}

// Programs take turns as well: of calls that alternate between two sizes of one class no plan gets only one.
TEST(Trial, AlternatingCallsDoNotDecide) {
  for (std::size_t period = 2; period <= 4; ++period) {
    Trial trial(choices(2));
    std::size_t calls = 0;
    while (!trial.complete()) {
      while (!trial.lap_over()) {
        const double size = calls++ % period == 0 ? 1.9 : 1;
        trial.record((index_of(trial.next()) == 0 ? 1.25e-5 : 1e-5) * size, 0);
      }
      trial.end_lap();
    }
    EXPECT_EQ(trial.ranking()[0], 1U) << period;
  }
}

}  // namespace
}  // namespace tapa
