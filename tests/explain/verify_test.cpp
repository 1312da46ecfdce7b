#include "explain/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "../plan/draft.hpp"

namespace tapa {
namespace {

using Kind = Defect::Kind;
using test::Draft;
using test::received;
using test::scratch;
using test::sent;

std::string words(const std::vector<Defect>& defects) {
  std::string text;
  for (const Defect& d : defects) text += std::string(to_string(d.kind)) + ": " + d.what + "\n";
  return text;
}

TEST(Verify, AcceptsDirectExchanges) {
  for (int ranks : {1, 2, 3, 8, 64}) {
    const Counts counts = Counts::uniform(ranks, 24);
    EXPECT_EQ(words(verify(test::direct(ranks, counts).plan, counts)), "");
  }
}

TEST(Verify, AcceptsBlocksOfAllSizesAndNone) {
  const Counts ragged = Counts::matrix(3, {0, 5, 0, 7, 1, 0, 0, 0, 0});
  EXPECT_EQ(words(verify(test::direct(3, ragged).plan, ragged)), "");
  const Counts none = Counts::uniform(4, 0);
  EXPECT_EQ(words(verify(test::direct(4, none).plan, none)), "");
}

TEST(Verify, AcceptsRelaysAndReuseOfScratch) {
  EXPECT_EQ(words(verify(test::relayed().plan, Counts::uniform(3, 8))), "");
  EXPECT_EQ(words(verify(test::pipelined().plan, test::pipelined_counts())), "");
}

/// A way to break relayed(), what is expected of the verifier, and words that name the culprit.
struct Broken {
  const char* name;
  std::function<void(Draft&)> change;
  Kind kind;
  const char* what;
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

const std::vector<Broken>& broken_plans() {
  static const std::vector<Broken> all = {
      {"RankMissing", [](Draft& d) { d.plan.of_rank.pop_back(); }, Kind::malformed,
       "the plan has steps of 2 ranks, expected 3"},
      {"RanksInWrongOrder", [](Draft& d) { std::swap(d.rank(0), d.rank(1)); }, Kind::malformed,
       "steps at place 0 are those of rank 1 of 3"},
      {"ChannelsDisagree", [](Draft& d) { d.rank(2).channels = 5; }, Kind::malformed,
       "rank 2 has 5 channels, rank 0 has 2"},
      {"PeerOutOfRange", [](Draft& d) { d.step(0, 2).peer = 7; }, Kind::malformed,
       "rank 0 step 2 (send to 7, channel 0): peer 7 is no rank"},
      {"MessageToItself", [](Draft& d) { d.step(0, 2).peer = 0; }, Kind::malformed,
       "rank 0 step 2 (send to 0, channel 0): a message to itself"},
      {"CopyToAnother", [](Draft& d) { d.step(0, 3).peer = 1; }, Kind::malformed,
       "rank 0 step 3 (copy): a copy with peer 1, expected its own rank"},
      {"ChannelOutOfRange", [](Draft& d) { d.step(1, 3).channel = 2; }, Kind::malformed,
       "rank 1 step 3 (send to 2, channel 2): channel 2 of 2"},
      {"PhaseOutOfRange", [](Draft& d) { d.step(1, 3).phase = 1; }, Kind::malformed,
       "rank 1 step 3 (send to 2, channel 0): phase 1 of 1"},
      {"KindUnknown", [](Draft& d) { d.step(2, 0).kind = static_cast<StepKind>(9); }, Kind::malformed,
       "kind is unknown"},
      {"WaitsForItself", [](Draft& d) { d.rank(1).deps[0] = 4; }, Kind::malformed,
       "rank 1 step 4 (send to 2, channel 1): waits for step 4, which is not earlier"},
      {"DependenciesLeaveThePool", [](Draft& d) { d.step(1, 4).deps.count = 2; }, Kind::malformed,
       "rank 1 step 4 (send to 2, channel 1): dependencies leave the pool"},
      {"SegmentsLeaveThePool", [](Draft& d) { d.step(2, 4).to.count = 9; }, Kind::malformed,
       "rank 2 step 4 (copy): segments written leave the pool"},
      {"BytesAreNotTheSegments", [](Draft& d) { d.step(0, 2).bytes = 15; }, Kind::malformed,
       "rank 0 step 2 (send to 1, channel 0): its 15 bytes are not the sum of its segments read"},
      {"SegmentOverflows", [](Draft& d) { d.from(0, 2, 1).bytes = static_cast<std::size_t>(-8); },
       Kind::malformed, "rank 0 step 2 (send to 1, channel 0): its 16 bytes are not the sum"},
      {"EmptyMessage",
       [](Draft& d) {
         d.step(1, 2).bytes = 0;
         d.step(1, 2).from.count = 0;
       },
       Kind::malformed, "rank 1 step 2 (send to 0, channel 0): moves no bytes"},
      {"ReceiveThatReads", [](Draft& d) { d.step(0, 0).from = d.step(0, 1).to; }, Kind::malformed,
       "rank 0 step 0 (recv from 1, channel 0): has segments read, expected none"},
      {"BlockIsNoRank", [](Draft& d) { d.from(1, 2).block = 3; }, Kind::malformed,
       "rank 1 step 2 (send to 0, channel 0): block 3 is no rank"},
      {"ScratchHasNoBlocks", [](Draft& d) { d.from(1, 4).block = 1; }, Kind::malformed,
       "rank 1 step 4 (send to 2, channel 1): block 1 of scratch, expected 0"},

      {"ScratchTooSmall", [](Draft& d) { d.rank(1).scratch_bytes = 7; }, Kind::out_of_bounds,
       "rank 1 step 0 (recv from 0, channel 0): bytes 0..8 leave scratch of 7 bytes"},
      {"LeavesTheSendBlock", [](Draft& d) { d.from(1, 2).offset = 1; }, Kind::out_of_bounds,
       "rank 1 step 2 (send to 0, channel 0): bytes 1..9 leave the send block for rank 0 of 8 bytes"},
      {"LeavesTheReceiveBlock", [](Draft& d) { d.to(2, 1).offset = 4; }, Kind::out_of_bounds,
       "rank 2 step 1 (recv from 1, channel 1): bytes 4..12 leave the receive block from rank 0 of 8 bytes"},
      {"OffsetOverflows", [](Draft& d) { d.to(2, 1).offset = static_cast<std::size_t>(-4); },
       Kind::out_of_bounds, "leave the receive block from rank 0"},

      {"WritesSendBuffer", [](Draft& d) { d.to(0, 1) = sent(2, 8); }, Kind::writes_send,
       "rank 0 step 1 (recv from 2, channel 0) writes the send block for rank 2"},

      {"ReceiveOnAnotherChannel", [](Draft& d) { d.step(0, 1).channel = 1; }, Kind::unmatched,
       "rank 0 step 1 (recv from 2, channel 1) has no send there"},
      {"SendToTheWrongRank", [](Draft& d) { d.step(2, 3).peer = 0, d.step(2, 3).channel = 1; },
       Kind::unmatched, "rank 2 step 3 (send to 0, channel 1) has no receive there"},

      {"EndsDisagreeAboutBytes",
       [](Draft& d) {
         d.step(2, 0).bytes = 7;
         d.to(2, 0).bytes = 7;
       },
       Kind::size_mismatch,
       "rank 1 step 3 (send to 2, channel 0) sends 8 bytes, rank 2 step 0 (recv from 1, channel 0) expects "
       "7"},

      {"TwoMessagesOnOneChannel",
       [](Draft& d) {
         d.step(1, 4).channel = 0;
         d.step(2, 1).channel = 0;
       },
       Kind::duplicate_channel,
       "rank 1 step 4 (send to 2, channel 0) uses the same channel as step 3 to the same peer"},

      {"DependencyDropped", [](Draft& d) { d.step(1, 4).deps.count = 0; }, Kind::race,
       "rank 1 step 0 (recv from 0, channel 0) and rank 1 step 4 (send to 2, channel 1) both touch scratch "
       "bytes 0..8, "
       "one writing, and neither waits for the other"},
      {"TwoReceivesInOnePlace", [](Draft& d) { d.to(0, 1) = received(1, 8); }, Kind::race,
       "rank 0 step 0 (recv from 1, channel 0) and rank 0 step 1 (recv from 2, channel 0) both touch bytes "
       "0..8 of the "
       "receive block from rank 1, both writing"},
      {"OneReceiveTwiceInOnePlace", [](Draft& d) { d.to(1, 0, 1) = received(0, 8); }, Kind::race,
       "rank 1 step 0 (recv from 0, channel 0) touches bytes 0..8 of the receive block from rank 0 twice, "
       "writing"},
      {"CopyOntoItself", [](Draft& d) { d.from(2, 4) = received(2, 8); }, Kind::race,
       "rank 2 step 4 (copy) touches bytes 0..8 of the receive block from rank 2 twice"},

      {"ReadsWhatNobodyWrote",
       [](Draft& d) {
         d.rank(1).scratch_bytes = 12;
         d.from(1, 4).offset = 4;
       },
       Kind::uninitialized,
       "rank 1 step 4 (send to 2, channel 1) reads bytes 8..12 of scratch, which nothing has written"},
      {"ReadsReceiveBufferEarly",
       [](Draft& d) {
         d.from(1, 2) = received(2, 8);
         d.rank(1).steps.erase(d.rank(1).steps.begin() + 1);
         d.rank(2).steps.erase(d.rank(2).steps.begin() + 3);
         d.rank(1).deps[0] = 0;
       },
       Kind::uninitialized, "reads bytes 0..8 of the receive block from rank 2, which nothing has written"},

      {"SendsWaitForEachOther",
       [](Draft& d) {
         d.rank(0).deps = {0};
         d.step(0, 2).deps = {0, 1};  // rank 0 sends when it has received from 1,
         d.rank(1).deps = {0};
         d.step(1, 2).deps = {0, 1};  // and rank 1 when it has received from 0
       },
       Kind::deadlock,
       "rank 0 step 0 (recv from 1, channel 0) waits for rank 1 step 2 (send to 0, channel 0) waits for rank "
       "1 step 0 "
       "(recv from 0, channel 0) waits for rank 0 step 2 (send to 1, channel 0) waits for rank 0 step 0"},
      {"RingOfThree",
       [](Draft& d) {
         // 0 receives from 1 after it sent to 1; 1 sends to 0 after it received from 2; 2 sends to 1 after it
         // received the relayed block, which needs the send of 0, which waits for the receive from 2.
         d.rank(0).deps = {1};
         d.step(0, 2).deps = {0, 1};
         d.rank(2).deps = {1};
         d.step(2, 2).deps = {0, 1};
       },
       Kind::deadlock, "waits for rank 2 step 1 (recv from 1, channel 1) waits for"},

      {"BlocksSwapped", [](Draft& d) { std::swap(d.to(0, 0), d.to(0, 1)); }, Kind::wrong_data,
       "rank 0 step 0 (recv from 1, channel 0) writes to bytes 0..8 of the receive block from rank 2 what "
       "are bytes 0..8 "
       "of the block from rank 1 to rank 0"},
      {"OrderInsideAMessageDiffers", [](Draft& d) { std::swap(d.from(0, 2, 0), d.from(0, 2, 1)); },
       Kind::wrong_data, "of the block from rank 0 to rank 2"},
      {"SelfCopyOfAnotherBlock", [](Draft& d) { d.from(0, 3).block = 1; }, Kind::wrong_data,
       "rank 0 step 3 (copy) writes to bytes 0..8 of the receive block from rank 0 what are bytes 0..8 of "
       "the block from "
       "rank 0 to rank 1"},
      {"HalvesSwapped",
       [](Draft& d) {
         d.rank(2).segments.push_back(received(0, 4, 4));
         d.rank(2).segments.push_back(received(0, 4, 0));
         d.step(2, 1).to = {static_cast<std::uint32_t>(d.rank(2).segments.size() - 2), 2};
       },
       Kind::wrong_data,
       "rank 2 step 1 (recv from 1, channel 1) writes to bytes 4..8 of the receive block from rank 0 what "
       "are bytes 0..4"},

      {"SelfCopyDropped", [](Draft& d) { d.rank(1).steps.pop_back(); }, Kind::missing_data,
       "rank 1: bytes 0..8 of the block from rank 1 never arrive"},
      {"MessageDropped",
       [](Draft& d) {
         d.rank(2).steps.erase(d.rank(2).steps.begin() + 2);
         d.rank(0).steps.erase(d.rank(0).steps.begin() + 1);
       },
       Kind::missing_data, "rank 0: bytes 0..8 of the block from rank 2 never arrive"},
      {"HalfAMessageDropped",
       [](Draft& d) {
         d.step(2, 2).bytes = d.from(2, 2).bytes = 5;
         d.step(0, 1).bytes = d.to(0, 1).bytes = 5;
       },
       Kind::missing_data, "rank 0: bytes 5..8 of the block from rank 2 never arrive"},

      {"CopiedTwice", [](Draft& d) { d.copy(0, {sent(0, 8)}, {received(0, 8)}, {3}); }, Kind::duplicate_data,
       "rank 0 step 4 (copy) writes bytes 0..8 of the receive block from rank 0, some of which have already "
       "arrived"},
  };
  return all;
}

class BrokenPlan : public testing::TestWithParam<Broken> {};

TEST_P(BrokenPlan, IsRejectedInWords) {
  Draft draft = test::relayed();
  GetParam().change(draft);
  const std::vector<Defect> defects = verify(draft.plan, Counts::uniform(3, 8));
  ASSERT_FALSE(defects.empty());
  EXPECT_EQ(defects[0].kind, GetParam().kind) << words(defects);
  EXPECT_THAT(words(defects), testing::HasSubstr(GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(Table, BrokenPlan, testing::ValuesIn(broken_plans()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Verify, EveryKindOfDefectIsInTheTable) {
  std::set<Kind> kinds;
  for (const Broken& broken : broken_plans()) kinds.insert(broken.kind);
  EXPECT_EQ(kinds.size(), static_cast<std::size_t>(Kind::duplicate_data) + 1);
  std::set<std::string_view> names;
  for (const Kind kind : kinds) names.insert(to_string(kind));
  EXPECT_EQ(names.size(), kinds.size());
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Verify, ReuseOfScratchNeedsItsOrder) {
  Draft draft = test::pipelined();
  EXPECT_EQ(words(verify(draft.plan, test::pipelined_counts())), "");
  draft.step(1, 2).deps.count = 0;  // the second part may now overwrite the first before it has left
  const std::vector<Defect> defects = verify(draft.plan, test::pipelined_counts());
  ASSERT_FALSE(defects.empty());
  EXPECT_EQ(defects[0].kind, Kind::race);
}

TEST(Verify, CountsOfAnotherSizeAreNamed) {
  const std::vector<Defect> defects = verify(test::relayed().plan, Counts::uniform(4, 8));
  ASSERT_EQ(defects.size(), 1U);
  EXPECT_EQ(defects[0].what, "the plan is for 3 ranks, the counts for 4");
}

TEST(Verify, StopsAtTheLimit) {
  const Counts counts = Counts::uniform(64, 8);
  const Draft silent(64);
  EXPECT_EQ(verify(silent.plan, counts, 5).size(), 5U);
  EXPECT_EQ(verify(silent.plan, counts).size(), 16U);
  EXPECT_EQ(verify(silent.plan, counts, 100000).size(), 64U * 64U);
}

}  // namespace
}  // namespace tapa
