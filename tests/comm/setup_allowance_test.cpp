#include "comm/setup_allowance.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

TEST(SetupAllowance, TheFirstRequestWaitsUntilTheProcessHasLivedLongEnough) {
  const SetupAllowance allowance;
  EXPECT_FALSE(allowance.allows(5e-3, 0.0));
  EXPECT_FALSE(allowance.allows(5e-3, 0.29));
  EXPECT_TRUE(allowance.allows(5e-3, 0.31));
}

// A program that makes a communicator with a request for each of its steps.
TEST(SetupAllowance, ManyCommunicatorsTogetherTakeAShareOfTheLife) {
  SetupAllowance allowance;
  double age = 0.5;
  double taken = 0;
  for (int life = 0; life < 100000; ++life) {
    if (allowance.allows(2e-3, age)) {
      allowance.spend(2e-3);
      taken += 2e-3;
      age += 2e-3;
    }
    age += 50e-6;
    ASSERT_LE(Newcomer::kPatience * taken, age);
  }
  EXPECT_GE(taken, age / Newcomer::kPatience - 4e-3);
}

TEST(SetupAllowance, WhereNoneHasEverPaidItTakesMuchLess) {
  const SetupAllowance allowance;
  EXPECT_FALSE(allowance.allows(1e-3, 0.9, true));
  EXPECT_TRUE(allowance.allows(1e-3, 1.0, true));
}

}  // namespace
}  // namespace tapa
