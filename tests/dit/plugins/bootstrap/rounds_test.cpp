// What ranks find out of what they tell each other.
#include "bootstrap/rounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "bootstrap/gathered_exchange.hpp"
#include "bootstrap/round_messages.hpp"
#include "memory_group.hpp"

namespace dit {
namespace {

using testing::HasSubstr;

NextStep exchange(int channel, std::uint64_t number = 1) {
  return {number, 0, channel, StepKind::exchange};
}

TEST(BootstrapRounds, WhatAllHaveGivenIsReady) {
  const std::vector<std::vector<NextStep>> steps{{exchange(3), exchange(0), exchange(1)},
                                                 {exchange(3), exchange(1), exchange(2)}};
  const std::vector<ReadyStep> ready = ready_steps(steps);
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_EQ(ready[0].channel, 1);
  EXPECT_FALSE(ready[0].first);
  EXPECT_EQ(ready[1].channel, 3);
  EXPECT_TRUE(ready[1].first);
  EXPECT_EQ(ready[0].problem + ready[1].problem, "");
}

TEST(BootstrapRounds, NothingIsReadyWhereARankHasOtherSteps) {
  const std::vector<std::vector<NextStep>> steps{{exchange(1)}, {exchange(2)}};
  EXPECT_TRUE(ready_steps(steps).empty());
}

TEST(BootstrapRounds, DifferentCallsAreNamed) {
  const std::vector<std::vector<NextStep>> kinds{{exchange(0)}, {{1, 8, 0, StepKind::gather}}};
  EXPECT_EQ(ready_steps(kinds).at(0).problem,
            "rank 0 exchanges blocks as call 1 of channel 0, rank 1 gathers 8 bytes of each rank as call 1, "
            "expected the same calls in the same order on all ranks");
  const std::vector<std::vector<NextStep>> bytes{{{4, 8, 0, StepKind::gather}},
                                                 {{4, 9, 0, StepKind::gather}}};
  EXPECT_THAT(ready_steps(bytes).at(0).problem, HasSubstr("rank 1 gathers 9 bytes"));
  const std::vector<std::vector<NextStep>> numbers{{exchange(0, 5)}, {exchange(0, 6)}};
  EXPECT_THAT(ready_steps(numbers).at(0).problem, HasSubstr("rank 1 exchanges blocks as call 6"));
}

TEST(BootstrapRounds, BlocksOfDifferentSizesAreNamed) {
  // rank 0 sends 1, 2; expects 1, 3. rank 1 sends 3, 4; expects 2, 4.
  std::vector<std::uint64_t> bytes{1, 2, 1, 3, 3, 4, 2, 4};
  EXPECT_EQ(disagreement(bytes, 2), "");
  bytes[6] = 5;
  EXPECT_EQ(disagreement(bytes, 2), "rank 0 sends 2 bytes to rank 1, which expects 5");
}

/// Runs `body` with the functions of each rank.
void with_functions(int size, const std::function<void(CallerFunctions&)>& body) {
  MemoryGroup group(size);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        CallerFunctions functions(group.bootstrap(rank), "");
        body(functions);
      });
  }
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(group.at(rank).released, 1);
}

TEST(BootstrapRounds, AllStepsAreToldHoweverMany) {
  with_functions(3, [](CallerFunctions& functions) {
    for (const std::size_t most : {1U, 4U, 5U, 40U}) {
      const auto rank = static_cast<std::size_t>(functions.rank());
      const std::size_t count = rank == 1 ? most : 1 + rank;
      std::vector<NextStep> mine;
      for (std::size_t i = 0; i < count; ++i)
        mine.push_back(exchange(static_cast<int>(100 * rank + i), i + 1));
      const std::vector<std::uint64_t> blocks(6, rank + 7);
      const Gathered gathered = gather_steps(functions, mine, blocks);
      for (std::size_t other = 0; other < 3; ++other) {
        ASSERT_EQ(gathered.steps[other].size(), other == 1 ? most : 1 + other);
        for (std::size_t i = 0; i < gathered.steps[other].size(); ++i) {
          EXPECT_EQ(gathered.steps[other][i].channel, static_cast<int>(100 * other + i));
          EXPECT_EQ(gathered.steps[other][i].number, i + 1);
        }
        for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(gathered.blocks[other * 6 + i], other + 7);
      }
    }
  });
}

// Blocks that end inside a piece, begin in one and end in another, are empty, or longer than a piece.
TEST(BootstrapRounds, BlocksAreGatheredInPieces) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kBytes[kRanks][kRanks] = {{0, 100, 1}, {17, 0, 0}, {5, 33, 0}};
  with_functions(kRanks, [&](CallerFunctions& functions) {
    const auto self = static_cast<std::size_t>(functions.rank());
    const auto value = [](std::size_t from, std::size_t to, std::size_t i) {
      return static_cast<std::byte>(from * 91 + to * 37 + i);
    };
    std::vector<std::uint64_t> blocks(2 * kRanks * kRanks);
    for (std::size_t from = 0; from < kRanks; ++from)
      for (std::size_t to = 0; to < kRanks; ++to) blocks[from * 2 * kRanks + to] = kBytes[from][to];
    std::vector<std::size_t> to_bytes, to_offsets, from_bytes, from_offsets;
    std::vector<std::byte> send(400), expected(400);
    for (std::size_t peer = 0; peer < kRanks; ++peer) {
      to_bytes.push_back(kBytes[self][peer]);
      to_offsets.push_back(120 * (kRanks - 1 - peer) + 3);
      from_bytes.push_back(kBytes[peer][self]);
      from_offsets.push_back(130 * peer + 1);
      for (std::size_t i = 0; i < to_bytes[peer]; ++i) send[to_offsets[peer] + i] = value(self, peer, i);
      for (std::size_t i = 0; i < from_bytes[peer]; ++i)
        expected[from_offsets[peer] + i] = value(peer, self, i);
    }
    for (const std::size_t at_once : {std::size_t{1}, std::size_t{30}, std::size_t{48}, std::size_t{4096}}) {
      std::vector<std::byte> received(400);
      exchange_by_gathering(functions, send.data(), {to_bytes, to_offsets}, received.data(),
                            {from_bytes, from_offsets}, blocks, at_once);
      EXPECT_EQ(received, expected) << at_once;
    }
  });
}

}  // namespace
}  // namespace dit
