// Regions that others had before, as other members and in other numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "shm_ranks.hpp"

namespace tapa {
namespace {

using namespace shm_test;

TEST(ShmBuffers, EachRegionIsDividedAlikeForAllItsUsers) {
  Memory memory(70);
  const auto wide = memory.buffers(0, {0, 70, 4});
  for (const std::size_t first : {1U, 5U, 40U}) {
    const auto later = memory.buffers(0, {first, 3, 9});
    for (std::size_t member = 0; member < 3; ++member) {
      for (const std::uint64_t round : {2U, 3U})
        EXPECT_EQ(later->buffer(member, round), wide->buffer(first + member, round))
            << first << " " << member;
    }
  }
}

TEST(ShmBuffers, WhatEarlierUsersHaveToldIsNotTakenForAnAnswer) {
  constexpr std::uint64_t made = 20;
  Memory memory(4);
  {
    std::vector<std::unique_ptr<ShmBuffers>> all;
    for (std::size_t m = 0; m < 4; ++m) all.push_back(memory.buffers(m));
    for (std::uint64_t round = 1; round <= made; ++round) {
      for (const auto& buffers : all) buffers->publish();
      for (const auto& buffers : all) buffers->tell_all_read();
    }
    for (int piece = 0; piece < 5; ++piece) {  // of an exchange over one round
      all[2]->ask(0);
      EXPECT_EQ(all[2]->given(0), nullptr);
      EXPECT_NE(all[0]->asked(2), nullptr);
      all[0]->give(2);
      EXPECT_EQ(all[0]->asked(2), nullptr);
      EXPECT_NE(all[2]->given(0), nullptr);
    }
  }
  // Their lines are those of 2 and 0, and of 1 with itself.
  const Region region{1, 2, made};
  const auto owner = memory.buffers(0, region);
  const auto reader = memory.buffers(1, region);
  EXPECT_EQ(owner->round(), made);
  const std::uint64_t next = made + 1;
  EXPECT_EQ(owner->asked(1), nullptr) << "it was somebody else who has asked";
  EXPECT_LT(reader->buffer(0, next)->sequence, next);
  for (const auto& buffers : {owner.get(), reader.get()}) buffers->publish();
  EXPECT_EQ(reader->buffer(0, next)->sequence, next);
  EXPECT_EQ(owner->asked(1), nullptr);
  EXPECT_FALSE(owner->was_read(1, next));
  reader->tell_read(0);
  EXPECT_TRUE(owner->was_read(1, next));
  for (int piece = 0; piece < 3; ++piece) {
    reader->ask(0);
    EXPECT_EQ(reader->given(0), nullptr) << "not yet";
    EXPECT_NE(owner->asked(1), nullptr);
    owner->give(1);
    EXPECT_NE(reader->given(0), nullptr);
    EXPECT_EQ(owner->asked(1), nullptr);
  }
}

TEST(ShmBuffers, RegionsAreUsedAgainByOthers) {
  constexpr pid_t nobody = 0x7ffffff0;
  constexpr std::size_t units = 5;
  enum Way { copied, stays, refused, mixed, ways };
  Memory memory(units);
  std::array<std::uint64_t, units> used{};
  std::mt19937 random(11);
  for (int user = 0; user < 60; ++user) {
    Region region{random() % units, 0, 0};
    region.members = 1 + random() % (units - region.first);
    region.rounds =
        *std::max_element(used.begin() + static_cast<std::ptrdiff_t>(region.first),
                          used.begin() + static_cast<std::ptrdiff_t>(region.first + region.members));
    const Way way = static_cast<Way>(random() % ways);
    const bool together = random() % 2 == 0;
    const std::size_t wrong = in_threads(memory, region, skewed, random() % 2 == 0, [&](Rank& rank) {
      rank.buffers().tell_together(together);
      std::vector<pid_t> pids(region.members, way == refused ? nobody : getpid());
      if (way == mixed) pids[0] = nobody;
      std::size_t sum = 0;
      for (int number = 0; number < 4; ++number) {
        if (way != copied) rank.buffers().let_stay(pids, 100);
        sum += rank.call(user + number);
        if (way != copied) rank.buffers().let_stay(pids, 100);
        sum += rank.uniform_call(user + number, number % 2 == 0 ? 8 : 40'000, false);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << "user " << user << ": way " << way << ", units " << region.first << " and "
                         << region.members - 1 << " more";
    std::fill_n(used.begin() + region.first, region.members, region.rounds);
  }
}

}  // namespace
}  // namespace tapa
