// All-to-alls over shared buffers: ranks as threads of one process (for the thread sanitizer, which sees that
// they share addresses).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "shm_ranks.hpp"

namespace tapa {
namespace {

using namespace shm_test;

TEST(ShmBuffers, EqualBlocksOfAllSizes) {
  for (const std::size_t members : {2U, 3U, 5U}) {
    const auto wrong = in_threads(members, no_sizes, false, [](Rank& rank) {
      std::size_t sum = 0;
      int number = 0;
      for (const std::size_t bytes :
           {std::size_t{1}, std::size_t{8}, std::size_t{26}, std::size_t{52}, std::size_t{104},
            std::size_t{105}, std::size_t{4096}, std::size_t{65520}, ShmBuffers::kBufferBytes - 64,
            ShmBuffers::kBufferBytes, 2 * ShmBuffers::kBufferBytes + 17}) {
        for (int repeat = 0; repeat < 5; ++repeat) sum += rank.uniform_call(number++, bytes, false);
        if (ShmExchange::fits(rank.buffers(), bytes)) sum += rank.uniform_call(number++, bytes, true);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << members << " members";
  }
}

TEST(ShmBuffers, ManyShortCalls) {
  const auto wrong = in_threads(4, no_sizes, false, [](Rank& rank) {
    std::size_t sum = 0;
    for (int number = 0; number < 2000; ++number) sum += rank.uniform_call(number, 8, false);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks up to 32 bytes lie in the table; of members 64 apart one bit tells whether there are any.
TEST(ShmBuffers, ShortBlocksOfManyMembers) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return (src * 7 + dst * 13 + static_cast<std::size_t>(call)) % 5 == 0 ? (src + dst) % 71 : 0;
  };
  const auto wrong = in_threads(67, sizes, true, [](Rank& rank) {
    std::size_t sum = 0;
    for (int number = 0; number < 6; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks of the sizes that travel in slots, beside empty, shorter and longer ones, of other sizes in each
// call; calls of equal blocks lie between, so that a slot is written again after one round and after several.
TEST(ShmBuffers, BlocksInSlots) {
  constexpr std::size_t least = ShmBuffers::kSlotFrom;
  for (const std::size_t members : {2U, 5U}) {
    Memory memory(members);
    const auto [brief, middle, most] = memory.buffers(0)->slot_lengths();
    ASSERT_GT(brief, 2 * least);
    ASSERT_GT(middle, brief + 1);
    ASSERT_GT(most, middle + 1);
    const std::array<std::size_t, 11> lengths{0,         24,     least - 1,  least, 2 * least + 24, brief,
                                              brief + 1, middle, middle + 1, most,  most + 1};
    const Sizes sizes = [&](std::size_t src, std::size_t dst, int call) {
      return lengths[(src * 5 + dst * 3 + static_cast<std::size_t>(call)) % lengths.size()];
    };
    for (const bool packed : {false, true}) {
      const auto wrong = in_threads(members, sizes, packed, [&](Rank& rank) {
        std::size_t sum = 0;
        for (int number = 0; number < 30; ++number) {
          sum += rank.call(number);
          const std::size_t bytes = lengths[static_cast<std::size_t>(number) % lengths.size()];
          for (int repeat = 0; bytes > 0 && repeat < number % 4; ++repeat)
            sum += rank.uniform_call(number, bytes, ShmExchange::fits(rank.buffers(), bytes) && repeat == 1);
        }
        return sum;
      });
      EXPECT_EQ(wrong, 0U) << members << (packed ? " members, packed" : " members");
    }
  }
}

TEST(ShmBuffers, OwnBlocksHaveNoSlot) {
  const auto buffers = Memory(2).buffers(0);
  const ShmBlock shorter{nullptr, 8};
  const ShmBlock longest{nullptr, buffers->slot_bytes()};
  EXPECT_TRUE(ShmExchange::fits(*buffers, std::array{shorter, longest}));
  EXPECT_FALSE(ShmExchange::fits(*buffers, std::array{longest, shorter}));
}

// The two slots of a pair of each length change hands from round to round, and are nobody else's.
TEST(ShmBuffers, SlotsAreWrittenByTheirReaders) {
  constexpr std::size_t members = 4;
  Memory memory(members);
  const auto buffers = memory.buffers(0);
  std::map<const std::byte*, std::size_t> lengths;
  for (const std::size_t bytes : buffers->slot_lengths()) {
    for (std::size_t from = 0; from < members; ++from) {
      for (std::size_t to = 0; to < members; ++to) {
        if (from == to) continue;
        EXPECT_NE(buffers->slot(from, to, 2, bytes), buffers->slot(from, to, 3, bytes));
        EXPECT_EQ(buffers->slot(from, to, 2, bytes), buffers->slot(to, from, 3, bytes));
        EXPECT_EQ(buffers->slot(from, to, 2, bytes), buffers->slot(from, to, 4, bytes));
        EXPECT_EQ(buffers->slot(from, to, 2, bytes), buffers->slot(from, to, 2, bytes - 1));
        EXPECT_TRUE(lengths.try_emplace(buffers->slot(from, to, 2, bytes), bytes).second);
      }
    }
  }
  const std::byte* end = nullptr;
  for (const auto& [at, bytes] : lengths) {
    EXPECT_GE(at, end);
    end = at + bytes;
  }
}

TEST(ShmBuffers, LengthsOfSlots) {
  EXPECT_EQ(Memory(32).buffers(0)->slot_lengths(), (std::array<std::size_t, 3>{1088, 4288, 8384}));
  EXPECT_GE(Memory(64).buffers(0)->slot_lengths().front(), ShmBuffers::kSlotFrom);
}

// Datatypes with gaps that a buffer does not hold: they are packed part by part.
TEST(ShmBuffers, LongPackedBlocksTravelInParts) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return 120 * (700 + (src * 3 + dst + static_cast<std::size_t>(call)) % 5 * 331);
  };
  for (const std::size_t from :
       {std::size_t{0}, std::size_t{100}}) {  // blocks stay, if they cannot be divided
    const auto wrong = in_threads(5, sizes, true, [&](Rank& rank) {
      if (from > 0) rank.buffers().let_stay(std::vector<pid_t>(5, getpid()), from);
      std::size_t sum = 0;
      for (int number = 0; number < 12; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << from;
  }
}

// A block that is shorter than its receiver expects may end within a run.
TEST(ShmBuffers, LongPackedBlocksMayBeShorterThanExpected) {
  constexpr std::size_t less = 37;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return 120 * (700 + (src * 3 + dst + static_cast<std::size_t>(call)) % 5 * 331) - less;
  };
  const auto wrong = in_threads(5, sizes, true, [](Rank& rank) {
    rank.expect_more(less);
    std::size_t sum = 0;
    for (int number = 0; number < 12; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(ShmBuffers, SkewedAndSparseBlocks) {
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(4, skewed, packed, [](Rank& rank) {
      std::size_t sum = 0;
      for (int number = 0; number < 40; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

TEST(ShmBuffers, IsUsedByOneAtATime) {
  Memory memory(2);
  const auto buffers = memory.buffers(0);
  EXPECT_TRUE(buffers->claim());
  EXPECT_FALSE(buffers->claim());
  buffers->release();
  EXPECT_TRUE(buffers->claim());
}

}  // namespace
}  // namespace tapa
