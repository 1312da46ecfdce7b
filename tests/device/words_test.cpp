// The numbers in the words that ranks write into each other's memory.
#include "device/words.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "device/choice.hpp"

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

TEST(Words, ReadyWordsKnowTheirCall) {
  for (const Word sequence : kSequences) {
    for (const Word payload : {Word{0}, Word{1}, Word{0x155555}, kPayloadMask}) {
      const Word word = ready_word(sequence, payload);
      EXPECT_TRUE(is_ready(word, sequence));
      EXPECT_FALSE(is_ready(word, sequence + 1));
      EXPECT_FALSE(is_ready(word, sequence + (Word{1} << 32)));
      EXPECT_EQ(ready_payload(word), payload);
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

TEST(Words, FlagsOfLinesTellCallsApartFromRenewalToRenewal) {
  const Word period = Tuning{}.renew_period;
  for (const Word sequence : {period * 5 + 3, period * 4 - 1, Word{0xffffffff} + 7}) {
    for (const Word bytes : {Word{0}, Word{1}, Word{4096}, Word{512} << 10}) {
      const std::uint32_t flag = line_flag(sequence, bytes);
      EXPECT_TRUE(is_of_call(flag, sequence));
      EXPECT_FALSE(is_of_call(renewed_flag(sequence), sequence));
      for (const Word age : {Word{1}, Word{2}, Word{3}, period, period + 1, 2 * period}) {
        EXPECT_FALSE(is_of_call(line_flag(sequence - age, bytes), sequence)) << age;
      }
    }
  }
}

TEST(Words, FlagsOfLinesDifferWithTheLength) {
  std::vector<int> alike(2, 0);
  constexpr int kLengths = 5000;
  for (int bytes = 0; bytes < kLengths; ++bytes) {
    const auto length = static_cast<Word>(bytes);
    for (const Word step : {1U, 2U, 4U, 8U, 16U, 64U, 128U, 256U}) {
      EXPECT_NE(line_flag(9, length), line_flag(9, length + step)) << bytes;
    }
    alike[0] += line_flag(9, length) == line_flag(9, 12345) ? 1 : 0;
    alike[1] += line_flag(9, length * 512) == line_flag(9, 128 << 10) ? 1 : 0;
  }
  for (const int count : alike) EXPECT_LE(count, kLengths / 200);
}

}  // namespace
}  // namespace tapa::device
