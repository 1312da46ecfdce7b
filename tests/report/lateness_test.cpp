#include "report/lateness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tapa {
namespace {

/// Calls of so many ranks of which each comes `late` seconds after the first one, and that then takes as long
/// as `transfer` for each.
class Calls {
 public:
  explicit Calls(std::size_t ranks) : samples_(ranks) {}

  void add(const std::vector<double>& late, double transfer, std::uint64_t bytes = 1000) {
    const double last = *std::ranges::max_element(late);
    ++call_;
    for (std::size_t r = 0; r < late.size(); ++r)
      samples_[r].push_back({7, call_, late.size(), bytes, last - late[r] + transfer});
  }
  [[nodiscard]] std::vector<std::vector<CallSample>>& samples() { return samples_; }
  [[nodiscard]] Lateness find() const { return find_lateness(samples_); }

 private:
  std::uint64_t call_ = 0;
  std::vector<std::vector<CallSample>> samples_;
};

TEST(Lateness, NamesTheLateRankAndSplitsTheTime) {
  for (std::size_t ranks = 2; ranks <= 12; ++ranks) {
    for (std::size_t who = 0; who < ranks; ++who) {
      Calls calls(ranks);
      std::vector<double> late(ranks);
      late[who] = 0.003;
      for (int i = 0; i < 64; ++i) calls.add(late, 0.001);
      const Lateness found = calls.find();
      EXPECT_EQ(found.calls, 64U);
      EXPECT_NEAR(found.transfer, 64 * 0.001 * static_cast<double>(ranks), 1e-9);
      EXPECT_NEAR(found.waiting, 64 * 0.003 * static_cast<double>(ranks - 1), 1e-9);
      ASSERT_EQ(found.late.size(), 1U) << ranks << " ranks, late is " << who;
      EXPECT_EQ(found.late[0].rank, static_cast<int>(who));
      EXPECT_EQ(found.late[0].last, 64U);
      EXPECT_EQ(found.late[0].calls, 64U);
      EXPECT_NEAR(found.late[0].waited, 0.003, 1e-9);
    }
  }
}

TEST(Lateness, NamesNobodyWhereRanksAreAlike) {
  std::mt19937 random(5);
  std::exponential_distribution<double> jitter(1000);
  for (int trial = 0; trial < 100; ++trial) {
    for (const std::size_t ranks : {2U, 3U, 4U, 8U, 33U, 256U}) {
      Calls calls(ranks);
      for (int i = 0; i < 128; ++i) {
        std::vector<double> late(ranks);
        for (double& seconds : late) seconds = jitter(random);
        calls.add(late, 1e-5);
      }
      const Lateness found = calls.find();
      EXPECT_TRUE(found.late.empty()) << ranks << " ranks, trial " << trial;
      EXPECT_GT(found.waiting, found.transfer);
    }
  }
}

TEST(Lateness, NamesNobodyWhereRanksAreLateInTurn) {
  for (std::size_t ranks = 2; ranks <= 8; ++ranks) {
    Calls calls(ranks);
    for (std::size_t i = 0; i < 64; ++i) {
      std::vector<double> late(ranks);
      late[i % ranks] = 1;
      calls.add(late, 0.01);
    }
    EXPECT_TRUE(calls.find().late.empty()) << ranks;
  }
}

TEST(Lateness, NamesTheRanksOfASlowNode) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> jitter(0, 0.001);
  Calls calls(32);
  for (std::size_t i = 0; i < 256; ++i) {
    std::vector<double> late(32);
    for (std::size_t r = 8; r < 16; ++r) late[r] = 0.01 + jitter(random);
    calls.add(late, 0.001);
  }
  std::set<int> named;
  for (const Lateness::Rank& rank : calls.find().late) named.insert(rank.rank);
  EXPECT_GE(named.size(), 5U) << "of eight; the others may have come last too seldom to be sure";
  EXPECT_GE(*named.begin(), 8);
  EXPECT_LT(*named.rbegin(), 16);
}

TEST(Lateness, WaitingThatDoesNotMatterNamesNobody) {
  Calls calls(4);
  for (int i = 0; i < 100; ++i) calls.add({0, 1e-6, 0, 0}, 0.001);
  EXPECT_TRUE(calls.find().late.empty());
}

TEST(Lateness, NeedsAllRanksAndAboutEqualAmountsOfData) {
  Calls calls(3);
  for (int i = 0; i < 20; ++i) calls.add({0, 0.01, 0}, 0.001);
  calls.samples()[2].resize(15);
  calls.samples()[0][3].bytes = 2000;
  calls.samples()[0][4].bytes = 1200;
  EXPECT_EQ(calls.find().calls, 14U);
  EXPECT_EQ(find_lateness({}).calls, 0U);
}

TEST(Lateness, OfCommunicatorsEachRankCountsWithItsOwnCalls) {
  std::vector<std::vector<CallSample>> samples(4);
  for (std::uint64_t call = 1; call <= 30; ++call) {
    for (const std::size_t r : {0U, 1U}) samples[r].push_back({5, call, 2, 8, r == 1 ? 0.001 : 0.01});
    for (const std::size_t r : {2U, 3U}) samples[r].push_back({6, call, 2, 8, 0.001});
  }
  const Lateness found = find_lateness(samples);
  EXPECT_EQ(found.calls, 60U);
  ASSERT_EQ(found.late.size(), 1U);
  EXPECT_EQ(found.late[0].rank, 1);
  EXPECT_EQ(found.late[0].calls, 30U);
}

TEST(CallSamples, AreTheSameOnRanksWithTheSameCalls) {
  CallSamples one;
  CallSamples other;
  for (std::uint64_t call = 1; call <= 100'000; ++call) {
    for (const std::uint64_t communicator : {0U, 3U}) {
      one.add({communicator, call, 2, 8, 1});
      if (other.wants(communicator, call)) other.add({communicator, call, 2, 8, 2});
    }
  }
  const auto numbers = [](const CallSamples& samples) {
    std::set<std::pair<std::uint64_t, std::uint64_t>> result;
    for (const CallSample& s : samples.samples()) result.emplace(s.communicator, s.call);
    return result;
  };
  EXPECT_EQ(numbers(one).size(), CallSamples::kMost);
  EXPECT_EQ(numbers(one), numbers(other));
  const auto late = std::ranges::count_if(one.samples(), [](const CallSample& s) { return s.call > 50'000; });
  EXPECT_GT(late, 80) << "calls of the whole run are kept";
  EXPECT_LT(late, 176);
}

}  // namespace
}  // namespace tapa
