// What kernels say and look at around copies of engines, with threads' teams in place of the device's: an
// exchange that came to nothing is found, and one that was completed is not taken for that.
#include "device/engine_words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "host_team.hpp"

namespace tapa::device {
namespace {

constexpr std::size_t kBlock = 100;
constexpr std::byte kSpoilt{0xff};

/// The two directions of a pair.
struct Pair {
  std::array<EngineWords, 2> to{};  ///< by receiver
  std::array<Word, 2> left{};
};

/// One of two ranks, which sends the other a block and receives one.
class EngineRank {
 public:
  EngineRank(Pair& pair, std::size_t rank) : pair_(pair), rank_(rank) {
    for (const bool sends : {true, false}) {
      const std::size_t at = sends ? 0 : 1;
      table_[at] = {&words(sends), &pair.left[1 - rank], &lost_[at], &missing_,
                    &begun_[at],   &passed_[at],         sends};
      launch_.job[launch_.jobs++] = {memory_[at].data(), kBlock, static_cast<int>(at)};
    }
    launch_.table = table_.data();
    launch_.state = &state_;
    launch_.counts = &counts_;
    launch_.on_host = &on_host_;
    launch_.gave_up = &gave_up;
  }
  void begin() {
    run([&](HostTeam& team) { begin_engines(team, launch_); });
  }
  void end() {
    run([&](HostTeam& team) { end_engines(team, launch_); });
  }
  void leave() { pair_.left[rank_] = 1; }
  void fail() { state_.aborted = 1; }
  /// As its thread does.
  void give_peer_up() {
    lost_.fill(1);
    gave_up = 1;
  }
  [[nodiscard]] EngineProgress progress(bool sends) const {
    const EngineEnd& end = table_[sends ? 0 : 1];
    return {end.own().begun, end.own().good, end.other().begun, pair_.left[1 - rank_] != 0};
  }
  [[nodiscard]] bool failed() const { return state_.aborted != 0; }
  [[nodiscard]] Word missing() const { return missing_; }
  [[nodiscard]] bool all_ended() const { return on_host_.begun == on_host_.ended; }
  [[nodiscard]] Word exchanges() const { return on_host_.ended; }
  [[nodiscard]] bool spoilt(bool sent) const {
    const auto& block = memory_[sent ? 0 : 1];
    return std::all_of(block.begin(), block.end(), [](std::byte byte) { return byte == kSpoilt; });
  }

  Word gave_up = 0;

 private:
  template <class Work>
  static void run(Work work) {
    TeamMeeting meeting(1);
    HostTeam team(meeting, 0, 0, 1, 0);
    work(team);
  }
  EngineWords& words(bool sends) { return pair_.to[sends ? 1 - rank_ : rank_]; }

  Pair& pair_;
  std::size_t rank_;
  std::array<std::array<std::byte, kBlock>, 2> memory_{};
  std::array<EngineEnd, 2> table_{};
  std::array<Word, 2> lost_{}, begun_{}, passed_{};
  Word missing_ = 0;
  EngineCounts counts_{}, on_host_{};
  LocalState state_{};
  EngineLaunch launch_{};
};

class Engines : public ::testing::Test {
 protected:
  void exchange() {
    for (EngineRank* rank : {&one, &other}) rank->begin();
    for (EngineRank* rank : {&one, &other}) rank->end();
  }
  Pair pair;
  EngineRank one{pair, 0}, other{pair, 1};
};

TEST_F(Engines, ExchangesThatAreCompletedAreGood) {
  for (Word count = 1; count <= 3; ++count) {
    exchange();
    for (const EngineRank* rank : {&one, &other}) {
      EXPECT_FALSE(rank->failed() || rank->spoilt(false));
      EXPECT_TRUE(rank->all_ended());
      EXPECT_EQ(rank->exchanges(), count);
      for (const bool sends : {true, false}) {
        EXPECT_FALSE(rank->progress(sends).waits());
        EXPECT_EQ(rank->progress(sends).own_good, count);
      }
    }
  }
}

TEST_F(Engines, OneMayBeginWhileTheLastIsUnderWay) {
  for (EngineRank* rank : {&one, &other}) rank->begin();
  one.begin();
  EXPECT_TRUE(one.progress(true).alone());
  other.end();
  one.end();
  EXPECT_FALSE(one.failed() || one.all_ended());
  EXPECT_EQ(one.progress(true).own_good, 1U);
  other.begin();
  EXPECT_FALSE(one.progress(true).alone());
  one.end();
  EXPECT_FALSE(one.failed());
  EXPECT_TRUE(one.all_ended());
  EXPECT_EQ(one.progress(true).own_good, 2U);
}

TEST_F(Engines, ARankThatDoesNotComeIsNoted) {
  exchange();
  one.begin();
  EXPECT_FALSE(one.all_ended());
  EXPECT_TRUE(one.progress(true).alone() && one.progress(false).alone());
  one.give_peer_up();
  one.end();
  EXPECT_TRUE(one.failed() && one.all_ended());
  EXPECT_EQ(one.missing(), 2U);
  EXPECT_TRUE(one.spoilt(false));
  EXPECT_FALSE(one.spoilt(true));
  EXPECT_EQ(one.progress(true).own_good, 1U);
}

TEST_F(Engines, WhoLeavesBehindAnExchangeHasCompletedIt) {
  for (EngineRank* rank : {&one, &other}) rank->begin();
  other.end();
  other.leave();
  EXPECT_FALSE(is_in_vain(one.progress(false), false, false));
  one.end();
  EXPECT_FALSE(one.failed() || one.spoilt(false));
}

TEST_F(Engines, WhoLeavesWithinAnExchangeHasNot) {
  for (EngineRank* rank : {&one, &other}) rank->begin();
  other.leave();
  one.end();
  EXPECT_TRUE(one.failed() && one.spoilt(false));
  EXPECT_EQ(one.missing(), 1U);
}

TEST_F(Engines, ARankThatGaveUpTakesNothingForAResult) {
  for (EngineRank* rank : {&one, &other}) rank->begin();
  one.gave_up = 1;
  one.end();
  EXPECT_TRUE(one.spoilt(false));
  EXPECT_EQ(one.missing(), 0U);  // its own doing
}

TEST_F(Engines, AfterAFailureNothingIsAnnounced) {
  one.fail();
  one.begin();
  EXPECT_EQ(other.progress(false).other_begun, 0U);
  EXPECT_EQ(one.gave_up, 1U);  // so that its waits end
  one.end();
  EXPECT_TRUE(one.all_ended() && one.spoilt(false));
  EXPECT_EQ(one.progress(true).own_good, 0U);
}

TEST(EngineProgress, OnlyWhatCannotComeIsInVain) {
  constexpr EngineProgress idle{4, 4, 4, true}, moving{5, 4, 5, false}, parted{5, 4, 5, true};
  constexpr EngineProgress alone{5, 4, 4, false}, left{5, 4, 4, true};
  for (const bool late : {false, true}) {
    for (const bool others_alone : {false, true}) {
      EXPECT_FALSE(is_in_vain(idle, late, others_alone));
      EXPECT_TRUE(is_in_vain(left, late, others_alone));
      EXPECT_EQ(is_in_vain(alone, late, others_alone), late);
      EXPECT_EQ(is_in_vain(moving, late, others_alone), late && !others_alone);
      EXPECT_EQ(is_in_vain(parted, late, others_alone), late && !others_alone);
    }
  }
}

TEST(EngineCut, ChunksAreAllOfAMessage) {
  constexpr Word kMiB = Word{1} << 20;
  for (const EngineShape& shape :
       {EngineShape{kMiB / 2, 8, kMiB}, {kMiB, 8, kMiB}, {4 * kMiB, 8, kMiB}, {2 * kMiB, 2, 2 * kMiB}}) {
    for (Word bytes = 1; bytes < 70 * kMiB; bytes += bytes < 1000 ? 7 : 123457) {
      const EngineCut cut(bytes, shape);
      Word done = 0;
      for (Word step = 0; step < cut.count(); ++step) {
        const Slice part = cut.at(step);
        ASSERT_EQ(part.begin, done);
        ASSERT_GT(part.bytes, 0U);
        ASSERT_LE(part.bytes, shape.slot);
        done += part.bytes;
      }
      ASSERT_EQ(done, bytes) << "slots of " << shape.slot;
    }
  }
  constexpr EngineShape kShape{4 * kMiB, 8, kMiB};
  EXPECT_EQ(EngineCut(kMiB, kShape).count(), 1U);
  EXPECT_EQ(EngineCut(6 * kMiB, kShape).count(), 3U);
  EXPECT_EQ(EngineCut(64 * kMiB, kShape).count(), 16U);
}

}  // namespace
}  // namespace tapa::device
