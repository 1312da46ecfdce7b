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

Life live(int calls, double seconds, double setup) {
  Life life;
  Newcomer newcomer;
  for (int call = 0; call < calls; ++call) {
    if (newcomer.asks()) {
      life.talks.push_back(call);
      if (newcomer.worth(setup)) {
        life.pays = call;
        return life;
      }
      newcomer.wait_on();
    }
    newcomer.count();
    newcomer.spend(seconds);
  }
  return life;
}

TEST(Newcomer, AsksInCallsThatAllRanksKnow) {
  EXPECT_EQ(live(300, 0, 1).talks, (std::vector<int>{0, 1, 3, 15, 63, 255}));
}

TEST(Newcomer, AFewShortCallsNeverPay) {
  EXPECT_EQ(live(100, 20e-6, 1e-3).pays, -1);
}

TEST(Newcomer, LongCallsPaySoon) {
  EXPECT_EQ(live(100, 1.0, 10e-3).pays, 1);
  EXPECT_EQ(live(100, 0.1, 10e-3).pays, 3);
}

TEST(Newcomer, WhatTheSetUpCostsIsASmallShareOfWhatWasSpent) {
  for (const double seconds : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1}) {
    const Life life = live(1 << 24, seconds, 1e-3);
    ASSERT_GE(life.pays, 0);
    EXPECT_GE(life.pays * seconds, Newcomer::kPatience * 1e-3);
    if (life.pays > 3) {
      EXPECT_LE(life.pays * seconds, 4.5 * Newcomer::kPatience * 1e-3 + 4 * seconds);
    }
  }
}

}  // namespace
}  // namespace tapa
