#include "comm/plan_cache.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

using Key = std::vector<std::size_t>;

std::shared_ptr<PlanEntry> entry(std::size_t bytes) {
  auto made = std::make_shared<PlanEntry>();
  made->bytes = bytes;
  return made;
}

TEST(PlanCache, FindsWhatWasStoredUnderTheSameTextAndNumbers) {
  PlanCache cache(8);
  cache.insert("linear", Key{1, 2}, entry(12));
  cache.insert("bruck", Key{1, 2}, entry(34));
  ASSERT_NE(cache.find("linear", Key{1, 2}), nullptr);
  EXPECT_EQ(cache.find("linear", Key{1, 2})->bytes, 12U);
  EXPECT_EQ(cache.find("bruck", Key{1, 2})->bytes, 34U);
  EXPECT_EQ(cache.find("linear", Key{2, 1}), nullptr);
  EXPECT_EQ(cache.find("linear", Key{1}), nullptr);
  EXPECT_EQ(cache.find("", Key{1, 2}), nullptr);
}

TEST(PlanCache, TheLeastRecentlyUsedGivesWay) {
  PlanCache cache(2);
  cache.insert("", Key{1}, entry(1));
  cache.insert("", Key{2}, entry(2));
  EXPECT_NE(cache.find("", Key{1}), nullptr);  // now 2 is the older one
  cache.insert("", Key{3}, entry(3));
  EXPECT_EQ(cache.find("", Key{2}), nullptr);
  EXPECT_NE(cache.find("", Key{1}), nullptr);
  EXPECT_NE(cache.find("", Key{3}), nullptr);
}

TEST(PlanCache, AnEntryInUseOutlivesItsPlaceInTheCache) {
  PlanCache cache(1);
  cache.insert("", Key{1}, entry(1));
  const auto held = cache.find("", Key{1});
  cache.insert("", Key{2}, entry(2));
  cache.clear();
  EXPECT_EQ(held->bytes, 1U);
  EXPECT_EQ(cache.find("", Key{2}), nullptr);
}

TEST(PlanCache, SurvivesManyKeys) {
  PlanCache cache(100);
  for (std::size_t i = 0; i < 10000; ++i) cache.insert("x", Key{i, i * i}, entry(i));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    if (auto found = cache.find("x", Key{i, i * i})) {
      EXPECT_EQ(found->bytes, i);
      ++kept;
    }
  }
  EXPECT_EQ(kept, 100U);
}

std::shared_ptr<PlanEntry> planned(std::size_t steps) {
  auto made = std::make_shared<PlanEntry>();
  auto plan = std::make_shared<RankPlan>();
  plan->ranks = 1;
  plan->steps.resize(steps);
  made->plan = plan;
  return made;
}

TEST(PlanCache, WhatItHoldsIsBoundedInBytes) {
  PlanCache cache;
  cache.set_limit(100000);
  for (std::size_t i = 0; i < 1000; ++i) {
    cache.insert("", Key{i}, planned(100));
    EXPECT_LE(cache.held(), 100000U);
  }
  EXPECT_GT(cache.held(), 50000U);
  EXPECT_NE(cache.find("", Key{999}), nullptr);
}

TEST(PlanCache, AnEntryOverTheLimitServesItsCallAndIsReplacedByTheNext) {
  PlanCache cache;
  cache.set_limit(1000);
  cache.insert("", Key{1}, planned(1000));
  EXPECT_NE(cache.find("", Key{1}), nullptr);
  cache.insert("", Key{2}, planned(1000));
  EXPECT_EQ(cache.find("", Key{1}), nullptr);
}

/// Moves nothing.
class NoTransport final : public Transport {
 public:
  void reserve(int) override {}
  [[nodiscard]] bool takes_pieces(int, std::size_t) const override { return false; }
  void post_send(int, int, int, Pieces) override {}
  void post_recv(int, int, int, Pieces) override {}
  void poll(std::vector<int>&, bool) override {}
};

std::unique_ptr<Executor> executor(std::size_t scratch) {
  auto plan = std::make_shared<RankPlan>();
  plan->ranks = 1;
  plan->scratch_bytes = scratch;
  return std::make_unique<Executor>(plan, std::make_unique<NoTransport>());
}

TEST(PlanCache, ExecutorsCountWhileTheyAreIdle) {
  PlanCache cache;
  cache.set_limit(100000);
  auto entry = planned(1);
  cache.insert("", Key{1}, entry);
  const std::size_t before = cache.held();
  cache.keep(*entry, executor(50000));
  EXPECT_GE(cache.held(), before + 50000);
  EXPECT_NE(cache.take(*entry), nullptr);
  EXPECT_EQ(cache.held(), before);
  EXPECT_EQ(cache.take(*entry), nullptr);
}

TEST(PlanCache, ALargeExecutorIsNotKept) {
  PlanCache cache;
  cache.set_limit(100000);
  auto entry = planned(1);
  cache.insert("", Key{1}, entry);
  cache.keep(*entry, executor(200000));
  EXPECT_EQ(cache.take(*entry), nullptr);
  cache.clear();
  EXPECT_EQ(cache.held(), 0U);
  cache.keep(*entry, executor(10));  // of an entry that is no longer there
  EXPECT_EQ(cache.held(), 0U);
}

}  // namespace
}  // namespace tapa
