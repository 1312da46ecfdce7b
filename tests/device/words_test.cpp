// The numbers in the words that ranks write into each other's memory.
#include "device/words.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tapa::device {
namespace {

const std::vector<Word> kSequences = {1, 2, 3, 0xffffffff, 0x100000000, (Word{1} << 43) - 1};

TEST(Words, TargetsKeepWindowAndOffset) {
  for (const Word window : {Word{0}, Word{1}, Word{0x1234}, Target::kStaging}) {
    for (const Word offset : {Word{0}, Word{1}, (Word{1} << 32) + 5, (Word{1} << 48) - 1}) {
      const Target got = unpack(pack({window, offset}));
      EXPECT_EQ(got.window, window);
      EXPECT_EQ(got.offset, offset);
    }
  }
}

TEST(Words, ReadyWordsCarryATargetAndTheirCall) {
  for (const Word sequence : kSequences) {
    for (const Word packed :
         {pack({0, 0}), pack({}), pack({0x5555, 0xaaaaaaaaaaaa}), pack({0x7ffe, (Word{1} << 48) - 1})}) {
      Word got = 0;
      for (int index = 0; index < kReadyWords; ++index) {
        const Word word = ready_word(sequence, packed, index);
        EXPECT_TRUE(is_ready(word, sequence));
        EXPECT_FALSE(is_ready(word, sequence + 1));
        EXPECT_FALSE(is_ready(word, sequence + (Word{1} << 32)));
        got |= ready_payload(word, index);
      }
      EXPECT_EQ(got, packed);
    }
    EXPECT_FALSE(is_ready(0, sequence)) << "memory as it was cleared, call " << sequence;
  }
}

TEST(Words, ProgressGrowsWithinACallAndFromCallToCall) {
  for (const Word sequence : kSequences) {
    EXPECT_LT(progress(sequence, 0), progress(sequence, 1));
    EXPECT_LT(progress(sequence, 1), progress(sequence, kMaxChunks));
    EXPECT_LT(progress(sequence, kMaxChunks), progress(sequence + 1, 0));
  }
}

TEST(Words, EveryBlockHasALine) {
  EXPECT_EQ(lines_of(0), 1U);
  for (Word bytes = 1; bytes < 100; ++bytes) EXPECT_EQ(lines_of(bytes), (bytes - 1) / 8 + 1);
}

TEST(Words, BothMailboxesAreRenewedInEveryPeriod) {
  constexpr Word kPeriod = 8;
  std::vector<Word> renewed(2, 0);
  for (Word sequence = 1; sequence < 100; ++sequence) {
    if (renews_mailbox(sequence, kPeriod)) renewed[static_cast<std::size_t>(mailbox_of(sequence))] = sequence;
    for (const Word last : renewed) EXPECT_LE(sequence - last, kPeriod + 1) << sequence;
  }
}

}  // namespace
}  // namespace tapa::device
