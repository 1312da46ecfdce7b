// Sparse calls, which go by pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "shm_ranks.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using namespace shm_test;

/// Before the first call that goes by pairs.
constexpr int kBefore = PairSlots::kBefore;

/// In each call some members send to a few others; between them are calls of equal blocks.
std::size_t few(std::size_t src, std::size_t dst, int call) {
  const std::size_t way = (dst + 8 - src) % 8;
  if (way > 3) return 0;
  return way == 3 && call % 40 != 39 ? 0 : 1 + (src * 5 + dst + static_cast<std::size_t>(call) * 7) % 90;
}

// A call through tables, then 15 by pairs, which are no rounds, and so on. Some pairs are silent for 39
// calls.
TEST(ShmBuffers, SparseCallsGoByPairs) {
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(8, few, packed, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < kBefore; ++number) sum += rank.call(number);
      for (int number = 0; number < 320; ++number) {
        sum += rank.call(number);
        if (number % 50 == 7) sum += rank.uniform_call(number, 100, false);
      }
      return sum + (rank.buffers().round() == kBefore + 320 / 16 + 7 ? 0 : 1);
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

TEST(ShmBuffers, SilentPairsAreNotTouched) {
  constexpr std::size_t members = 5;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) { return src == 0 && dst == 1 ? 8U : 0U; };
  Memory memory(members);
  Region all{0, members, 0};
  const auto wrong = in_threads(memory, all, sizes, false, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number < kBefore + 16; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(all.rounds, kBefore + 1U);
  for (std::size_t member = 0; member < members; ++member) {
    const std::span pairs(memory.region(member) + ShmBuffers::region_bytes() - PairSlots::kBytes,
                          PairSlots::kBytes);
    const auto touched = std::ranges::count_if(pairs, [](std::byte b) { return b != std::byte{0}; });
    EXPECT_EQ(touched > 0, member == 1) << "member " << member;
  }
}

// A member goes on as far as its messages are taken: nobody else is waited for.
TEST(ShmBuffers, ByPairsNobodyWaitsForTheOthers) {
  constexpr std::size_t members = 4;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) {
    return src < 2 && dst == 1 - src ? 8U : 0U;
  };
  std::atomic<int> here{0};
  const auto wrong = in_threads(members, sizes, false, [&](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number <= kBefore; ++number) sum += rank.call(number);
    if (rank.buffers().self() >= 2) {  // late
      while (here.load() < 2) std::this_thread::yield();
    }
    for (int number = 1; number < 16; ++number) sum += rank.call(kBefore + number);
    if (rank.buffers().self() < 2) ++here;
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks longer than a slot, beside short ones: they come in parts, and calls go through tables then.
TEST(ShmBuffers, LongBlocksByPairs) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) -> std::size_t {
    if (dst != (src + 1) % 5 && dst != (src + 2) % 5) return 0;
    return call % 16 == 9 && src < 2 ? 120 * (200 + src) : 10 + src;
  };
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(5, sizes, packed, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < kBefore; ++number) sum += rank.call(0);
      for (int number = 0; number < 40; ++number) sum += rank.call(number);
      return sum + (rank.buffers().round() == kBefore + 1 + 24 ? 0 : 1);
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

TEST(ShmBuffers, BlocksOfAllMembersGoThroughTables) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) { return 1 + src + dst; };
  const auto wrong = in_threads(4, sizes, false, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number < 20; ++number) sum += rank.call(number);
    return sum + (rank.buffers().round() == 20 ? 0 : 1);
  });
  EXPECT_EQ(wrong, 0U);
}

// By pairs a member would wait for ever for what MPI lets it expect of one that sends nothing. More than 64
// members share bits of what tells who has something.
TEST(ShmBuffers, WhereMoreIsExpectedThanNothingCallsGoThroughTables) {
  for (const std::size_t members : {5U, 66U}) {
    const Sizes next = [=](std::size_t src, std::size_t dst, int) {
      return dst == (src + 1) % members ? 8U : 0U;
    };
    const auto wrong = in_threads(members, next, false, [](Rank& rank) {
      rank.know_sizes(true);
      rank.expect_more(3);
      std::size_t sum = 0;
      for (int number = 0; number < kBefore + 5; ++number) sum += rank.call(number);
      return sum + (rank.buffers().round() == kBefore + 5 ? 0 : 1);
    });
    EXPECT_EQ(wrong, 0U) << members << " members";
  }
}

// Others used the same memory before, as more or fewer members.
TEST(ShmBuffers, PairsOfLaterUsers) {
  Memory memory(8);
  std::uint64_t rounds = 0;
  for (const std::size_t members : {8U, 5U, 8U, 4U, 7U, 8U}) {
    Region region{0, members, rounds};
    const auto wrong = in_threads(memory, region, few, members % 2 == 1, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < kBefore + 37; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << members << " members";
    rounds = region.rounds;
  }
}

// Also after more rounds than 32 bits count.
TEST(ShmBuffers, PairsKnowNothingOfEarlierUsers) {
  Memory memory(2);
  for (const std::uint64_t rounds : {0UL, 40UL, 1UL << 32, (1UL << 32) + 40}) {
    const auto writer = memory.buffers(0, {0, 2, rounds});
    const auto reader = memory.buffers(1, {0, 2, rounds});
    EXPECT_EQ(reader->pairs().arrived(0), nullptr) << rounds;
    for (int time = 0; time < 3; ++time) {
      int sent = 0;
      for (; sent < 100 && writer->pairs().room(1, 8) != nullptr; ++sent) writer->pairs().send(1, 1, 8);
      EXPECT_EQ(sent, 8) << rounds << " rounds";
      for (; sent > 0 && reader->pairs().arrived(0) != nullptr; --sent) reader->pairs().take(0);
      EXPECT_EQ(sent, 0);
      EXPECT_EQ(reader->pairs().arrived(0), nullptr) << rounds;
    }
  }
}

// What a receiver does not expect in its call it is told in a later one, in which it expects something.
TEST(ShmBuffers, MessagesOfEarlierCallsAreAnError) {
  Memory memory(4);
  std::vector<std::thread> threads;
  std::array<bool, 4> refused{};
  for (std::size_t self = 0; self < 4; ++self) {
    threads.emplace_back([&, self] {
      const auto buffers = memory.buffers(self);
      ShmExchange exchange;
      Bytes block(8, std::byte{1});
      const auto call = [&](bool sends, bool receives) {
        std::vector<ShmBlock> send(4);
        std::vector<ShmBlock> recv(4);
        if (self == 0 && sends) send[1] = {block.data(), 8};
        if (self == 1 && receives) recv[0] = {block.data(), 8};
        exchange.begin(*buffers, send, recv, nullptr, false, ShmExchange::Compare::nothing, true);
        try {
          finish(exchange);
        } catch (const TransportError& e) {
          refused[self] = e.truncated();
        }
      };
      for (int before = 0; before <= kBefore; ++before) call(true, true);
      call(true, false);
      call(true, true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, (std::array{false, true, false, false}));
}

// What comes lies where something else was sent from: each sends to the next, and its own block moves as
// well.
TEST(ShmBuffers, BlocksByPairsMayOverlap) {
  constexpr std::size_t members = 4;
  Memory memory(members);
  std::array<std::size_t, members> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < members; ++self) {
    threads.emplace_back([&, self] {
      const auto buffers = memory.buffers(self);
      ShmExchange exchange;
      for (int call = 0; call < kBefore + 40; ++call) {
        Bytes both{value(self, 0, 0, call), value(self, 1, 0, call)};
        std::vector<ShmBlock> send(members);
        std::vector<ShmBlock> recv(members);
        send[(self + 1) % members] = {both.data(), 1};
        send[self] = {both.data() + 1, 1};
        recv[self] = {both.data(), 1};
        recv[(self + 3) % members] = {both.data() + 1, 1};
        exchange.begin(*buffers, send, recv, nullptr, true, ShmExchange::Compare::nothing, true);
        finish(exchange);
        const Bytes expected{value(self, 1, 0, call), value((self + 3) % members, 0, 0, call)};
        wrong[self] += both == expected ? 0 : 1;
      }
      wrong[self] += buffers->round() == kBefore + 3 ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<std::size_t, members>{}));
}

TEST(ShmBuffers, ByPairsAMemberIsToldThatABlockCouldNotBePacked) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) {
    return (dst + 4 - src) % 4 == 1 ? 48U : 0U;
  };
  const auto refused = in_threads(4, sizes, true, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t count = 0;
    for (int number = 0; number < kBefore + 12; ++number) {
      rank.refuse_to_pack(number == kBefore + 6);
      try {
        rank.call(number);
      } catch (const TransportError&) {
        ++count;
      }
    }
    return count;
  });
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace tapa
