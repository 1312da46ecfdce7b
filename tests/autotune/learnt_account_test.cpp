// What MPI took on communicators that were never set up, for later runs.
#include "autotune/learnt_account.hpp"

#include <gtest/gtest.h>

#include <string>

#include "autotune/learnt_file.hpp"
#include "learnt_samples.hpp"

namespace tapa {
namespace {

TEST(LearntAccount, IsOfOnePlaceAndNumberOfRanks) {
  Learnt learnt;
  settle(learnt, a_place(), 4, 0.125, kToday);
  settle(learnt, a_place(), 4, 0.25, kToday);
  settle(learnt, a_place(), 8, 1, kToday);
  LearntWhere other = a_place();
  other.job = 17;
  EXPECT_DOUBLE_EQ(account_of(learnt, a_place(), 4, kToday), 0.375);
  EXPECT_DOUBLE_EQ(account_of(learnt, a_place(), 8, kToday), 1);
  EXPECT_EQ(account_of(learnt, a_place(), 5, kToday), 0);
  EXPECT_EQ(account_of(learnt, other, 4, kToday), 0);
}

TEST(LearntAccount, EndsWhereItIsEmptyOrOld) {
  Learnt learnt;
  settle(learnt, a_place(), 4, 0.5, kToday);
  settle(learnt, a_place(), 4, -0.125, kToday);
  EXPECT_DOUBLE_EQ(account_of(learnt, a_place(), 4, kToday), 0.375);
  EXPECT_DOUBLE_EQ(account_of(learnt, a_place(), 4, kToday + kLearntDays), 0.375);
  EXPECT_EQ(account_of(learnt, a_place(), 4, kToday + kLearntDays + 1), 0);
  EXPECT_EQ(account_of(learnt, a_place(), 4, kToday - 1), 0) << "a clock that went back";
  settle(learnt, a_place(), 4, -1, kToday);
  EXPECT_TRUE(learnt.accounts.empty());
}

TEST(LearntAccount, HasLimits) {
  Learnt learnt;
  settle(learnt, a_place(), 2, 1e6, kToday);
  EXPECT_EQ(account_of(learnt, a_place(), 2, kToday), kMostLearntAccount);
  for (int ranks = 3; ranks < 40; ++ranks) settle(learnt, a_place(), ranks, 1, kToday + ranks);
  EXPECT_EQ(learnt.accounts.size(), kMostLearntAccounts);
  EXPECT_EQ(learnt.accounts.front().ranks, 39);
  EXPECT_EQ(learnt.accounts.back().ranks, 40 - static_cast<int>(kMostLearntAccounts));
  LearntWhere wordy = a_place();
  wordy.mpi = std::string(8000, '"');
  for (int ranks = 2; ranks < 20; ++ranks) settle(learnt, wordy, ranks, 1, kToday + 50);
  EXPECT_LE(learnt_json(learnt).size(), kMostLearntAccountBytes);
  EXPECT_FALSE(learnt.accounts.empty());
}

TEST(LearntAccount, StaysBesideWhatPlansHaveFound) {
  Learnt before;
  settle(before, a_place(), 4, 0.5, kToday);
  const Learnt after = merged(before, {{of_this_run(a_shape())}}, kToday);
  EXPECT_EQ(after.accounts, before.accounts);
  EXPECT_EQ(after.shapes.size(), 1U);
  EXPECT_FALSE(differs(after, after));
  Learnt drawn = after;
  settle(drawn, a_place(), 4, -0.25, kToday);
  EXPECT_TRUE(differs(after, drawn));
}

TEST(LearntAccount, IsReadAsItWasWritten) {
  Learnt learnt{{a_shape()}};
  settle(learnt, a_place(), 4, 0.5, kToday);
  settle(learnt, a_place(), 16, 0.25, kToday);
  EXPECT_EQ(parse_learnt(learnt_json(learnt), "file"), learnt);
}

}  // namespace
}  // namespace tapa
