#include "comm/newcomer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tapa {
namespace {

/// Calls in which the ranks talk, of so many that take so long each, and the first in which it pays.
struct Life {
  std::vector<int> talks;
  int pays = -1;
};

Life live(Newcomer newcomer, int calls, std::optional<std::size_t> bytes, double seconds, double setup) {
  Life life;
  for (int call = 0; call < calls; ++call) {
    if (newcomer.asks()) {
      life.talks.push_back(call);
      if (newcomer.worth(setup)) {
        life.pays = call;
        return life;
      }
      newcomer.wait_on();
    }
    newcomer.count(Newcomer::estimate(bytes, 8));
    newcomer.spend(seconds);
  }
  return life;
}

TEST(Newcomer, AHundredShortCallsPassWithoutAWord) {
  EXPECT_TRUE(live(Newcomer(), 900, 16, 20e-6, 1e-3).talks.empty());
}

TEST(Newcomer, WhereAnOptionAsksTheRanksTalkInTheFirstCall) {
  const auto talks = live(Newcomer(true), 10000, 16, 0, 1).talks;
  ASSERT_GE(talks.size(), 2U);
  EXPECT_EQ(talks[0], 0);
  EXPECT_GE(talks[1], 900);
}

TEST(Newcomer, TheyTalkSeldomOfManyCalls) {
  EXPECT_LE(live(Newcomer(), 1 << 20, 16, 0, 1).talks.size(), 20U);
  EXPECT_LE(live(Newcomer(), 1 << 20, std::nullopt, 0, 1).talks.size(), 35U);
}

TEST(Newcomer, LongCallsPaySoon) {
  EXPECT_LE(live(Newcomer(), 1000, 1 << 20, 2e-3, 1e-3).pays, 400);
  EXPECT_LE(live(Newcomer(), 1000, 64 << 20, 0.1, 10e-3).pays, 16);
  EXPECT_LE(live(Newcomer(), 1000, std::nullopt, 1.0, 10e-3).pays, 64);
}

// The ranks talk in a set-up: what that takes is not known before, but that a call takes as long as a
// message.
TEST(Newcomer, WhereMessagesAreSlowASetUpIsTakenToBeSlow) {
  const Life life = live(Newcomer(), 1 << 20, 16, 1e-3, 1e-3);
  EXPECT_GE(life.pays, static_cast<int>(Newcomer::kPatience * Newcomer::kMostTalking / 1e-3));
}

// Only some of many short calls are timed.
TEST(Newcomer, TimesStandForTheCallsThatAreNotMeasured) {
  Newcomer newcomer;
  unsigned measured = 0;
  for (int call = 0; call < 8000; ++call) {
    const unsigned weight = newcomer.weight();
    measured += weight > 0 ? 1 : 0;
    if (weight > 0) newcomer.spend(1e-6, weight);
  }
  EXPECT_NEAR(newcomer.spent(), 8e-3, 1e-4);
  EXPECT_LE(measured, 1100U);
}

TEST(Newcomer, ACallThatWasDisturbedStandsForItselfAlone) {
  for (const int disturbed : {3, 64, 1024}) {  // one that is measured
    Newcomer newcomer;
    for (int call = 1; call <= 8000; ++call) {
      const unsigned weight = newcomer.weight();
      if (weight > 0) newcomer.spend(call == disturbed ? 10e-3 : 1e-6, weight);
    }
    EXPECT_GE(newcomer.spent(), 10e-3 + 7e-3) << disturbed;
    EXPECT_LE(newcomer.spent(), 10e-3 + 9e-3) << disturbed;
  }
}

TEST(Newcomer, CallsThatBecomeLongerAreSeenToBe) {
  Newcomer newcomer;
  double real = 0;
  for (int call = 1; call <= 20000; ++call) {
    const double seconds = call <= 10000 ? 1e-6 : 1e-3;
    real += seconds;
    const unsigned weight = newcomer.weight();
    if (weight > 0) newcomer.spend(seconds, weight);
  }
  EXPECT_NEAR(newcomer.spent(), real, 0.05 * real);
}

TEST(Newcomer, WhatTheSetUpCostsIsASmallShareOfWhatWasSpent) {
  for (const double seconds : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1}) {
    const Life life = live(Newcomer(), 1 << 24, 16, seconds, 1e-3);
    ASSERT_GE(life.pays, 0);
    EXPECT_GE(life.pays * seconds, Newcomer::kPatience * 1e-3);
  }
}

TEST(Newcomer, WhereItNeverPaidItMustTakeMuchLonger) {
  Newcomer newcomer;
  newcomer.spend(1);
  EXPECT_TRUE(newcomer.worth(10e-3));
  EXPECT_FALSE(newcomer.worth(10e-3, true));
  newcomer.spend(9);
  EXPECT_TRUE(newcomer.worth(10e-3, true));
}

// What earlier runs have left counts like calls of this one.
TEST(Newcomer, AnAccountPaysForWhatIsMissing) {
  Newcomer newcomer;
  newcomer.spend(0.02);
  newcomer.spend(1e-6);
  EXPECT_DOUBLE_EQ(newcomer.price(1e-3), 0.06);
  EXPECT_DOUBLE_EQ(newcomer.price(1e-3, true), 0.96);
  EXPECT_FALSE(newcomer.worth(1e-3));
  EXPECT_FALSE(newcomer.worth(1e-3, false, 0.0399));
  EXPECT_TRUE(newcomer.worth(1e-3, false, 0.0401));
  EXPECT_FALSE(newcomer.worth(1e-3, true, 0.0401));
  EXPECT_TRUE(newcomer.worth(5e-3, false, 10)) << "its own calls took four times as long";
  EXPECT_FALSE(newcomer.worth(5.001e-3, false, 10));
}

}  // namespace
}  // namespace tapa
