// Ranks that do not agree on a call, with threads of the host as devices; and calls in which others store.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "host_machine.hpp"
#include "small_tuning.hpp"

namespace tapa::device {
namespace {

using Bytes = std::vector<std::byte>;
constexpr Word kSoon = 400'000'000;

/// A call of two ranks in which all blocks have `bytes` bytes, but for the one from rank 0 to rank 1: rank 0
/// sends `sent` of it, rank 1 expects `expected`.
class Pair {
 public:
  Pair(Word bytes, Word sent, Word expected, bool window) : machine_(2, small_tuning()) {
    for (int rank = 0; rank < 2; ++rank) {
      memory_.emplace_back(40000, std::byte{0});
      machine_.window(0, rank) = memory_.back().data() + 20000;
    }
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        Call call = machine_.call(rank, kSoon);
        std::byte* const own = memory_[static_cast<std::size_t>(rank)].data();
        for (int peer = 0; peer < 2; ++peer) {
          const Word at = static_cast<Word>(peer) * 10000;
          call.blocks[peer] = {own + at, own + 20000 + at, bytes, bytes};
          if (window) call.targets[peer] = pack({0, at});
        }
        if (rank == 0) call.blocks[1].send_bytes = sent;
        if (rank == 1) call.blocks[0].receive_bytes = expected;
        HostMachine::run(call, {});
      });
    }
  }
  [[nodiscard]] const Failure& failure(int rank) const { return machine_.failure(rank); }

 private:
  HostMachine machine_;
  std::vector<Bytes> memory_;
};

TEST(Disagreement, ASenderOfLongBlocksNamesBothLengths) {
  for (const bool window : {false, true}) {
    const Pair pair(50, 3000, 2999, window);
    EXPECT_EQ(pair.failure(0).to[1].call, 1U);
    EXPECT_EQ(pair.failure(0).to[1].sent, 3000U);
    EXPECT_EQ(pair.failure(0).to[1].expected, 2999U);
    EXPECT_EQ(pair.failure(0).missing[1], 0U);
    EXPECT_EQ(pair.failure(1).from[0].call, 1U);
    EXPECT_EQ(pair.failure(1).from[0].expected, 2999U);
    EXPECT_EQ(pair.failure(1).missing[0], 0U) << "no time-out";
  }
}

TEST(Disagreement, AReceiverOfLinesOfAnotherLengthTakesNone) {
  for (const auto& [sent, expected] : {std::pair<Word, Word>{40, 48}, {48, 40}, {0, 8}, {96, 0}}) {
    const Pair pair(10, sent, expected, false);
    EXPECT_EQ(pair.failure(1).from[0].call, 1U) << sent << " and " << expected;
    EXPECT_EQ(pair.failure(1).from[0].expected, expected);
    EXPECT_EQ(pair.failure(1).missing[0], 0U);
  }
}

TEST(Disagreement, LinesForOneAndNoneForTheOther) {
  const Pair fewer(10, 50, 3000, true);
  EXPECT_EQ(fewer.failure(1).from[0].call, 1U);
  EXPECT_EQ(fewer.failure(1).missing[0], 0U);
  const Pair more(10, 3000, 50, true);
  EXPECT_EQ(more.failure(1).from[0].call, 1U);
  EXPECT_EQ(more.failure(0).to[1].call, 1U) << "rank 0 waits for a place and learns why there is none";
  EXPECT_EQ(more.failure(0).to[1].sent, 3000U);
  EXPECT_EQ(more.failure(0).to[1].expected, 50U);
}

TEST(Disagreement, ASenderThatStillWaitsLearnsOfLinesThatNobodyTakes) {
  // Rank 0 waits for its own block of lines from rank 1, which gives up before it sends them.
  const Pair pair(10, 3000, 0, false);
  EXPECT_EQ(pair.failure(0).to[1].expected, 0U);
  EXPECT_EQ(pair.failure(0).to[1].sent, 3000U);
}

/// What a rank does in a call.
enum class Deed { exchange, store };

/// A call in which rank `rank` stores `bytes` bytes at every other, as its caller's kernels would.
void store(HostMachine& machine, int rank, Word bytes, Word op, const LaunchStyle& style, Word timeout = 0) {
  Call call = machine.call(rank, timeout);
  const Word place = pack({0, Target::kStores});
  call.expected = place;
  for (int peer = 0; peer < machine.region().size; ++peer) {
    call.targets[peer] = place;
    call.blocks[peer] = {nullptr, nullptr, kAnyBytes, kAnyBytes};
  }
  HostMachine::run(call, style, Part::begin);
  if (HostTeam::aborted(machine.local(rank))) return;
  for (int peer = 0; peer < machine.region().size; ++peer) {
    std::memset(machine.window(0, peer) + static_cast<Word>(rank) * bytes, static_cast<int>(op * 16) + rank,
                bytes);
  }
  HostMachine::run(call, style, Part::end);
}

TEST(Stores, AreSeenByAllBehindTheCallAndNotBefore) {
  constexpr int kSize = 3;
  constexpr Word kBytes = 500;
  HostMachine machine(kSize, small_tuning());
  std::vector<Bytes> memory(kSize, Bytes(kSize * kBytes));
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kSize; ++rank)
    machine.window(0, rank) = memory[static_cast<std::size_t>(rank)].data();
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      const Bytes& own = memory[static_cast<std::size_t>(rank)];
      for (Word op = 1; op < 40; ++op) {
        const LaunchStyle style{.delays = 10,
                                .seed = static_cast<unsigned>(op * 8) + static_cast<unsigned>(rank)};
        store(machine, rank, kBytes, op, style);
        for (Word at = 0; at < own.size(); ++at) {
          ASSERT_EQ(own[at], static_cast<std::byte>(op * 16 + at / kBytes))
              << "rank " << rank << ", call " << op;
        }
      }
    });
  }
  ranks.clear();
}

/// Runs two ranks, of which rank 1 makes another call, and expects rank 0 to say so.
void expect_other_call(Word bytes, Deed deed_of_0) {
  HostMachine machine(2, small_tuning());
  std::vector<Bytes> memory(2, Bytes(20000));
  for (int rank = 0; rank < 2; ++rank)
    machine.window(0, rank) = memory[static_cast<std::size_t>(rank)].data();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      if ((rank == 0) == (deed_of_0 == Deed::store)) {
        store(machine, rank, 10, 1, {}, kSoon);
        return;
      }
      Call call = machine.call(rank, kSoon);
      std::byte* const own = memory[static_cast<std::size_t>(rank)].data();
      for (int peer = 0; peer < 2; ++peer) {
        const Word at = static_cast<Word>(peer) * 5000;
        call.blocks[peer] = {own + at, own + 10000 + at, bytes, bytes};
        call.targets[peer] = pack({0, 10000 + at});
      }
      HostMachine::run(call, {});
    });
  }
  ranks.clear();
  const int storing = deed_of_0 == Deed::store ? 0 : 1;
  const Failure& of_exchange = machine.failure(1 - storing);
  EXPECT_TRUE(of_exchange.elsewhere[storing] != 0 || of_exchange.from[storing].call != 0) << bytes;
  const Failure& of_stores = machine.failure(storing);
  EXPECT_TRUE(of_stores.elsewhere[1 - storing] != 0 || of_stores.from[1 - storing].call != 0) << bytes;
}

TEST(Stores, AnotherCallOfAnotherRankIsAFailure) {
  for (const Word bytes : {Word{0}, Word{90}, Word{3000}}) {
    expect_other_call(bytes, Deed::store);
    expect_other_call(bytes, Deed::exchange);
  }
}

}  // namespace
}  // namespace tapa::device
