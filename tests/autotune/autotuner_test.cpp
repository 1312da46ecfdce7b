// What the sizes of a communicator begin with after an earlier run, and what they leave to the next one.
#include "autotune/autotuner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tapa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Offer kOffer{true, true, false};
constexpr std::size_t kBytes = 1024;

/// Three plans, all expected to take as long.
class Source final : public CandidateSource {
 public:
  [[nodiscard]] std::vector<Candidate> ranked(std::size_t, Offer) const override {
    std::vector<Candidate> all;
    for (const char* plan : {"linear", "pairwise", "bruck"}) all.push_back({parse_choice(plan), 1e-5, false});
    return all;
  }
  [[nodiscard]] bool tunes(std::size_t) const override { return true; }
  [[nodiscard]] bool one_choice() const override { return false; }
  [[nodiscard]] std::uint64_t blocks(bool) const override { return 16; }
  [[nodiscard]] bool memory_first() const override { return false; }
  [[nodiscard]] bool possible(const Choice& choice, bool) const override {
    return choice.algorithm != Algorithm::tapa && choice.algorithm != Algorithm::memory;
  }
};

/// Ranks that share memory. `apart`: each has a core.
class Node final : public CandidateSource {
 public:
  explicit Node(bool apart) : apart_(apart) {}
  [[nodiscard]] std::vector<Candidate> ranked(std::size_t, Offer) const override {
    return {{parse_choice("memory"), 1e-5, false}};
  }
  [[nodiscard]] bool tunes(std::size_t) const override { return true; }
  [[nodiscard]] bool one_choice() const override { return true; }
  [[nodiscard]] std::uint64_t blocks(bool) const override { return 16; }
  [[nodiscard]] bool memory_first() const override { return apart_; }
  [[nodiscard]] bool possible(const Choice&, bool) const override { return true; }

 private:
  bool apart_;
};

/// Two nodes, between which a plan should be so many times as fast as a message along each edge.
class Edges final : public CandidateSource {
 public:
  explicit Edges(double gain) : gain_(gain) {}
  [[nodiscard]] std::vector<Candidate> ranked(std::size_t, Offer) const override {
    return {{parse_choice("tapa:split=node"), 1e-5, false}, {parse_choice("linear"), gain_ * 1e-5, false}};
  }
  [[nodiscard]] bool tunes(std::size_t) const override { return true; }
  [[nodiscard]] bool one_choice() const override { return false; }
  [[nodiscard]] std::uint64_t blocks(bool) const override { return 8; }
  [[nodiscard]] bool memory_first() const override { return false; }
  [[nodiscard]] bool possible(const Choice&, bool) const override { return true; }

 private:
  double gain_;
};

SizeResult earlier(std::vector<PlanResult> plans, bool decided = true) {
  return {true, kBytes, decided, 20000, std::move(plans)};
}
PlanResult plan(const std::string& choice, double seconds, bool given_up = false) {
  return {parse_choice(choice), seconds, 65, given_up};
}

/// A communicator of four ranks in a program under the drop-in.
struct Communicator {
  explicit Communicator(std::vector<SizeResult> sizes = {}, bool limited = true, double spent = 1000)
      : Communicator(std::make_unique<Source>(), std::move(sizes), limited, spent) {}
  explicit Communicator(std::unique_ptr<CandidateSource> candidates, std::vector<SizeResult> sizes = {},
                        bool limited = true, double spent = 0, Offer can = kOffer)
      : offer(can), source(std::move(candidates)) {
    if (limited) tuner.limit(spent);
    tuner.remember(std::move(sizes));
  }
  const Offer offer;
  const ProbeKey key = Autotuner::key_of(true, kBytes, offer);

  /// Makes calls as an operation does; the plan of the last one.
  std::string call(int times, const std::map<std::string, double>& seconds) {
    std::string taken;
    for (int i = 0; i < times; ++i) {
      if (!tuner.undecided(key, kBytes, true)) {
        tuner.decided_by(key)->count();
        taken = tuner.decided(true, kBytes, offer, false)->text;
        continue;
      }
      Competition& running = tuner.running(key, kBytes, offer);
      if (running.now().round_over()) running.end_round(kBytes, offer);
      if (running.now().complete()) {
        running.count();
        taken = tuner.decided(true, kBytes, offer, false)->text;
        continue;
      }
      taken = to_string(running.now().next());
      called.insert(taken);
      if (running.now().resting()) {
        running.count();
      } else {
        tuner.record(key, seconds.at(taken), 0);
      }
    }
    return taken;
  }

  std::unique_ptr<CandidateSource> source;
  Autotuner tuner{*source, 4};
  std::set<std::string> called;
};

const std::map<std::string, double> kPairwiseWins{
    {"linear", 2e-5}, {"pairwise", 1e-5}, {"bruck", 3e-5}, {"mpi", 2e-5}};

TEST(Autotuner, WithoutEarlierRunsMpiBegins) {
  Communicator comm;
  EXPECT_EQ(comm.call(1, kPairwiseWins), "mpi");
  EXPECT_EQ(comm.tuner.used().sizes, 0);
}

// The model gives each plan 10 us.
TEST(Autotuner, AfterMpisFirstCallsAPlanThatShouldBeMuchFasterIsTriedAtOnce) {
  Communicator comm({}, true, 0);
  const std::map<std::string, double> aggregation_wins{{"linear", 1e-5}, {"mpi", 2e-5}};
  EXPECT_EQ(comm.call(5, aggregation_wins), "mpi");
  EXPECT_EQ(comm.call(1, aggregation_wins), "linear");
  EXPECT_EQ(comm.call(5, aggregation_wins), "linear") << "it stays";
  EXPECT_EQ(comm.call(3000, aggregation_wins), "linear");
  EXPECT_THAT(comm.called, ElementsAre("linear", "mpi"));
}

// Once MPI has made its connections there is little left to gain for a program of few calls.
TEST(Autotuner, AlongEdgesMpiIsTriedLateWhereAPlanShouldBeFarFaster) {
  const std::map<std::string, double> plan_wins{{"tapa:split=node", 1e-5}, {"mpi", 2e-5}};
  for (const auto& [gain, calls] : std::vector<std::pair<double, int>>{{3, 30}, {1.4, 5}}) {
    Communicator comm(std::make_unique<Edges>(gain), {}, true, 0, {true, false, false, true});
    for (int i = 0; i < calls; ++i) ASSERT_EQ(comm.call(1, plan_wins), "tapa:split=node") << i;
    EXPECT_EQ(comm.call(5, plan_wins), "mpi");
    EXPECT_EQ(comm.call(3000, plan_wins), "tapa:split=node");
    EXPECT_THAT(comm.called, ElementsAre("mpi", "tapa:split=node"));
    EXPECT_THAT(comm.tuner.results(), IsEmpty()) << "all-to-alls of a next run do not begin with it";
  }
  Communicator slow(std::make_unique<Edges>(1), {}, true, 0, {true, false, false, true});
  EXPECT_EQ(slow.call(5, plan_wins), "mpi") << "the model gives the plan no gain";
  EXPECT_EQ(slow.call(3000, plan_wins), "tapa:split=node");
}

TEST(Autotuner, SharedMemoryBeginsWhereEachRankHasACore) {
  Communicator apart(std::make_unique<Node>(true));
  const std::map<std::string, double> tie{{"memory", 2e-5}, {"mpi", 2e-5}};
  EXPECT_EQ(apart.call(5, tie), "memory");
  EXPECT_EQ(apart.call(5, tie), "mpi") << "to know what it takes";
  EXPECT_EQ(apart.call(3000, tie), "memory");

  EXPECT_FALSE(apart.tuner.mpi_has_won(kBytes));
  EXPECT_EQ(apart.call(4000, tie), "memory") << "also when it is looked at again";

  Communicator slow(std::make_unique<Node>(true));
  const std::map<std::string, double> mpi_wins{{"memory", 3e-5}, {"mpi", 2e-5}};
  EXPECT_EQ(slow.call(5, mpi_wins), "memory");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(slow.call(1, mpi_wins), "mpi");
  EXPECT_TRUE(slow.tuner.mpi_has_won(kBytes));

  Communicator after_a_tie(std::make_unique<Node>(true), apart.tuner.results());
  EXPECT_EQ(after_a_tie.call(100, tie), "memory");
  Communicator after_slow(std::make_unique<Node>(true), slow.tuner.results());
  EXPECT_TRUE(after_slow.tuner.mpi_has_won(kBytes)) << "before any call";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(after_slow.call(1, mpi_wins), "mpi");

  Communicator crowded(std::make_unique<Node>(false));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(crowded.call(1, tie), "mpi");
}

TEST(Autotuner, APlanThatDoesNotKeepWhatTheModelSaysCostsFiveCalls) {
  Communicator comm({}, true, 0);
  const std::map<std::string, double> mpi_wins{{"linear", 4e-5}, {"mpi", 2e-5}};
  EXPECT_EQ(comm.call(5, mpi_wins), "mpi");
  EXPECT_EQ(comm.call(5, mpi_wins), "linear");
  EXPECT_EQ(comm.call(100, mpi_wins), "mpi") << "and what follows is on the budget";
}

TEST(Autotuner, APlanThatIsNotSaidToBeMuchFasterThanMpiWaitsForTheBudget) {
  Communicator comm({}, true, 0);
  EXPECT_EQ(comm.call(20, {{"mpi", 1.2e-5}}), "mpi");
  EXPECT_THAT(comm.called, ElementsAre("mpi"));
}

TEST(Autotuner, AnEarlierWinnerBeginsAndStays) {
  Communicator comm({earlier({plan("pairwise", 1e-5), plan("mpi", 2e-5), plan("linear", 5e-5, true)})});
  EXPECT_EQ(comm.call(1, kPairwiseWins), "pairwise");
  EXPECT_EQ(comm.call(100, kPairwiseWins), "pairwise");
  EXPECT_THAT(comm.called, ElementsAre("mpi", "pairwise")) << "no other was tried";
  EXPECT_EQ(comm.tuner.used().sizes, 1);
  EXPECT_EQ(comm.tuner.used().refuted, 0);
  const std::vector<SizeResult> results = comm.tuner.results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].day, 20000) << "nothing new";
  EXPECT_TRUE(results[0].decided);
}

TEST(Autotuner, AWinnerThatLosesNowIsDropped) {
  for (const bool limited : {true, false}) {
    Communicator comm({earlier({plan("bruck", 1e-5), plan("mpi", 2e-5), plan("pairwise", 5e-5, true)})},
                      limited);
    EXPECT_EQ(comm.call(5, kPairwiseWins), "bruck");
    EXPECT_EQ(comm.call(5, kPairwiseWins), "mpi");
    EXPECT_EQ(comm.call(1000, kPairwiseWins), "pairwise") << "all compete again";
    EXPECT_EQ(comm.tuner.used().refuted, 1);
    const std::vector<SizeResult> results = comm.tuner.results();
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].day, 0);
    EXPECT_EQ(to_string(results[0].plans[0].choice), "pairwise");
  }
}

TEST(Autotuner, WhereNoPlanWasFasterMpiHasAllCallsUntilTheReview) {
  for (const bool limited : {true, false}) {
    Communicator comm({earlier({plan("mpi", 1e-5), plan("pairwise", 2e-5, true)})}, limited);
    EXPECT_EQ(comm.call(4000, kPairwiseWins), "mpi");
    EXPECT_THAT(comm.called, IsEmpty()) << "no probe";
    EXPECT_EQ(comm.tuner.results()[0].day, 20000) << "nothing was measured";
    EXPECT_EQ(comm.call(2000, kPairwiseWins), "pairwise") << "found out";
    EXPECT_EQ(comm.tuner.results()[0].day, 0);
  }
}

TEST(Autotuner, ATieIsMpis) {
  Communicator comm({earlier({plan("linear", 1e-5), plan("mpi", 1e-5)})});
  EXPECT_EQ(comm.call(100, kPairwiseWins), "mpi");
  EXPECT_THAT(comm.called, IsEmpty());
}

TEST(Autotuner, WhatWasGivenUpTakesNoPart) {
  Communicator comm({earlier({plan("mpi", 1e-5), plan("bruck", 9e-5, true)}, false)}, false);
  comm.call(1000, kPairwiseWins);
  EXPECT_THAT(comm.called, ElementsAre("linear", "mpi", "pairwise"));
}

TEST(Autotuner, PlansThatCannotBeHereAreNoPlans) {
  for (const char* strange : {"tapa:split=node", "memory"}) {
    Communicator comm({earlier({plan(strange, 1e-6), plan("mpi", 2e-5)})});
    EXPECT_EQ(comm.call(1, kPairwiseWins), "mpi");
    EXPECT_EQ(comm.tuner.used().sizes, 0);
  }
}

TEST(Autotuner, OtherSizesAndFormsBeginAnew) {
  SizeResult other = earlier({plan("pairwise", 1e-5), plan("mpi", 2e-5)});
  other.bytes = 2 * kBytes;
  SizeResult ragged = earlier({plan("pairwise", 1e-5), plan("mpi", 2e-5)});
  ragged.uniform = false;
  Communicator comm({other, ragged});
  EXPECT_EQ(comm.call(1, kPairwiseWins), "mpi");
}

TEST(Autotuner, WhatIsNotOverIsToldAsFarAsItGot) {
  Communicator comm({}, false);
  comm.call(60, kPairwiseWins);
  const std::vector<SizeResult> results = comm.tuner.results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].decided);
  EXPECT_EQ(to_string(results[0].plans[0].choice), "pairwise");
  EXPECT_EQ(start_from(results[0]), ResultsStart::trial);
}

TEST(Autotuner, AnOptionThatIsSetForgetsAll) {
  Communicator comm({earlier({plan("pairwise", 1e-5), plan("mpi", 2e-5)})});
  comm.call(20, kPairwiseWins);
  comm.tuner.reset();
  EXPECT_THAT(comm.tuner.results(), IsEmpty());
  EXPECT_EQ(comm.call(1, kPairwiseWins), "mpi");
}

}  // namespace
}  // namespace tapa
