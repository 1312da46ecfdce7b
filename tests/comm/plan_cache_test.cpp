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

}  // namespace
}  // namespace tapa
