// What a set-up is expected to take, before the first one and after others.
#include "comm/setup_cost.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

TEST(SetupCost, TheFirstOneTakesLongerWithMoreRanks) {
  const SetupCost cost;
  EXPECT_DOUBLE_EQ(cost.expected(2), SetupCost::kFirst + 2 * SetupCost::kFirstOfRank);
  EXPECT_GE(cost.expected(32), 7e-3);  // as it was measured
  EXPECT_GT(cost.expected(64), cost.expected(32));
}

TEST(SetupCost, AfterwardsAsTheLastOneTook) {
  SetupCost cost;
  cost.note(4, 3e-3);
  EXPECT_DOUBLE_EQ(cost.expected(4), 3e-3);
  EXPECT_DOUBLE_EQ(cost.expected(2), 3e-3);
  cost.note(2, 2e-3);
  EXPECT_DOUBLE_EQ(cost.expected(2), 2e-3);
}

TEST(SetupCost, MoreRanksThanTheLastOneHadTakeAsManyTimesAsLong) {
  SetupCost cost;
  cost.note(4, 3e-3);
  EXPECT_DOUBLE_EQ(cost.expected(64), 48e-3);
}

TEST(SetupCost, IsNeverTakenToBeNothing) {
  SetupCost cost;
  cost.note(1, 0);
  EXPECT_DOUBLE_EQ(cost.expected(1), SetupCost::kLeast);
}

}  // namespace
}  // namespace tapa
