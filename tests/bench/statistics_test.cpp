#include "common/statistics.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tapa::bench {
namespace {

TEST(Statistics, NoSamplesGiveZeros) {
  const Summary s = summarize({});
  EXPECT_EQ(s.count, 0U);
  EXPECT_EQ(s.median, 0);
  EXPECT_EQ(s.spread(), 0);
}

TEST(Statistics, OneSampleIsEveryQuantile) {
  const Summary s = summarize({3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.low, 3);
  EXPECT_EQ(s.high, 3);
  EXPECT_EQ(s.mean, 3);
  EXPECT_EQ(s.spread(), 0);
}

TEST(Statistics, UnsortedSamples) {
  const Summary s = summarize({40, 10, 20, 30});
  EXPECT_DOUBLE_EQ(s.median, 25);
  EXPECT_DOUBLE_EQ(s.low, 17.5);
  EXPECT_DOUBLE_EQ(s.high, 32.5);
  EXPECT_DOUBLE_EQ(s.min, 10);
  EXPECT_DOUBLE_EQ(s.max, 40);
  EXPECT_DOUBLE_EQ(s.mean, 25);
  EXPECT_DOUBLE_EQ(s.spread(), 0.6);
  EXPECT_EQ(s.count, 4U);
}

TEST(Statistics, OneOutlierMovesTheMeanButNotTheMedian) {
  const Summary s = summarize({1, 1, 1, 1, 1000});
  EXPECT_DOUBLE_EQ(s.median, 1);
  EXPECT_GT(s.mean, 200);
}

TEST(Statistics, QuantilesInterpolate) {
  const std::array<double, 3> samples{0, 10, 20};
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 0);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.25), 5);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.9), 18);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 20);
}

TEST(Statistics, OverlapAsOsuDefinesIt) {
  EXPECT_DOUBLE_EQ(overlap_percent(100, 100, 50), 100);  // all of the communication was hidden
  EXPECT_DOUBLE_EQ(overlap_percent(150, 100, 50), 0);    // none of it
  EXPECT_DOUBLE_EQ(overlap_percent(125, 100, 50), 50);
  EXPECT_DOUBLE_EQ(overlap_percent(300, 100, 50), 0);  // never below 0
  EXPECT_DOUBLE_EQ(overlap_percent(1, 1, 0), 0);
}

}  // namespace
}  // namespace tapa::bench
