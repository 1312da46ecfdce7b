#include "comm/setup_allowance.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

TEST(SetupAllowance, TheFirstRequestWaitsUntilTheProcessHasLivedLongEnough) {
  SetupAllowance allowance;
  EXPECT_FALSE(allowance.take(5e-3, 0.0));
  EXPECT_FALSE(allowance.take(5e-3, 0.29));
  EXPECT_TRUE(allowance.take(5e-3, 0.31));
}

// A program that makes a communicator with a request for each of its steps.
TEST(SetupAllowance, ManyCommunicatorsTogetherTakeAShareOfTheLife) {
  SetupAllowance allowance;
  double age = 0.5;
  double taken = 0;
  for (int life = 0; life < 100000; ++life) {
    const bool set_up = allowance.take(2e-3, age);
    taken += set_up ? 2e-3 : 0;
    age += 50e-6 + (set_up ? 2e-3 : 0);
    ASSERT_LE(Newcomer::kPatience * taken, age);
  }
  EXPECT_GE(taken, age / Newcomer::kPatience - 4e-3);
}

TEST(SetupAllowance, WhatIsRefusedIsNotTaken) {
  SetupAllowance allowance;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(allowance.take(1.0, 1.0));
  EXPECT_TRUE(allowance.take(1e-3, 1.0));
}

TEST(SetupAllowance, WhereNoneHasEverPaidItTakesMuchLess) {
  SetupAllowance allowance;
  EXPECT_FALSE(allowance.take(1e-3, 0.9, true));
  EXPECT_TRUE(allowance.take(1e-3, 1.0, true));
}

}  // namespace
}  // namespace tapa
