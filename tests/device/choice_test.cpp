// How blocks are cut: every size of a range, and sizes around each limit.
#include "device/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "device/call.hpp"

namespace tapa::device {
namespace {

std::vector<Word> sizes_around_limits(const Tuning& tuning) {
  std::vector<Word> sizes;
  for (Word bytes = 0; bytes < 5000; ++bytes) sizes.push_back(bytes);
  for (const Word limit : {tuning.line_limit, tuning.bulk_share, tuning.chunk, tuning.chunk * kStagingSlots,
                           tuning.bulk_share * 32, Word{1} << 29, Word{1} << 32, longest_block(tuning)}) {
    for (Word bytes = limit - 3; bytes <= limit + 3; ++bytes) sizes.push_back(bytes);
  }
  return sizes;
}

TEST(Choice, LinesUpToTheLimit) {
  const Tuning tuning;
  EXPECT_EQ(way_of(0, tuning), Way::lines);
  EXPECT_EQ(way_of(tuning.line_limit, tuning), Way::lines);
  EXPECT_EQ(way_of(tuning.line_limit + 1, tuning), Way::bulk);
}

TEST(Choice, ChannelsStayWithinTheirLimits) {
  const Tuning tuning;
  for (const Word bytes : sizes_around_limits(tuning)) {
    const int channels = channels_of(bytes, tuning);
    const bool lines = way_of(bytes, tuning) == Way::lines;
    ASSERT_GE(channels, 1) << bytes;
    ASSERT_LE(channels, lines ? tuning.line_channels : tuning.bulk_channels) << bytes;
  }
}

TEST(Choice, VeryLongBlocksAloneHaveAllChannels) {
  const Tuning tuning;
  EXPECT_EQ(channels_of(8 << 20, tuning), 48);
  EXPECT_EQ(channels_of(48 << 20, tuning), 48);
  EXPECT_EQ(channels_of(56 << 20, tuning), 56);
  EXPECT_EQ(channels_of(Word{512} << 20, tuning), 64);
  Tuning of_many_ranks;
  of_many_ranks.bulk_channels = kFewestChannels;
  EXPECT_EQ(channels_of(6 << 20, of_many_ranks), kFewestChannels);
  for (int channels = 1; channels <= kMostChannels; ++channels) {
    Tuning few;
    few.bulk_channels = channels;
    int before = 1;
    for (Word bytes = few.line_limit + 1; bytes < Word{1} << 30; bytes += bytes / 7) {
      const int now = channels_of(bytes, few);
      ASSERT_TRUE(now >= before && now <= channels) << bytes << " bytes, " << channels << " channels";
      before = now;
    }
    EXPECT_EQ(before, channels);
  }
}

TEST(Choice, SlicesCoverABlockInOrder) {
  const Tuning tuning;
  for (const Word bytes : sizes_around_limits(tuning)) {
    for (const int channels : {1, 2, 3, 16, 31, 32}) {
      Word end = 0;
      for (int channel = 0; channel < channels; ++channel) {
        const Slice slice = slice_of(bytes, channel, channels);
        ASSERT_EQ(slice.begin, end) << bytes << " bytes, channel " << channel << " of " << channels;
        ASSERT_TRUE(slice.bytes == 0 || slice.begin % kGrain == 0);
        end += slice.bytes;
      }
      ASSERT_EQ(end, bytes) << channels << " channels";
    }
  }
}

TEST(Choice, TeamsOfACallFitOnAGpu) {
  EXPECT_EQ(bulk_channels_on(132, 2), 64);
  EXPECT_EQ(bulk_channels_on(132, 4), 32);
  EXPECT_EQ(bulk_channels_on(108, 2), 52);
  EXPECT_EQ(bulk_channels_on(16, 2), 8) << "no fewer, though they do not fit";
  for (int size = 1; size <= kMaxRanks; ++size) {
    for (int multiprocessors = 1; multiprocessors < 300; ++multiprocessors) {
      const int channels = bulk_channels_on(multiprocessors, size);
      ASSERT_TRUE(channels == 8 || channels * size < multiprocessors) << multiprocessors << ", " << size;
      ASSERT_TRUE(channels >= 8 && channels <= kMostChannels) << multiprocessors << ", " << size;
    }
  }
}

TEST(Choice, ChunksFitTheirSlotsAndCanBeCounted) {
  for (const Word limit : {kLeastChunk, Word{128} << 10}) {
    Tuning tuning;
    tuning.chunk = limit;
    for (const Word bytes : sizes_around_limits(tuning)) {
      if (bytes == 0 || bytes > longest_block(tuning)) continue;
      ASSERT_LE(chunk_of(bytes, tuning), tuning.chunk);
      ASSERT_EQ(chunk_of(bytes, tuning) % kGrain, 0U);
      const Word chunks = chunks_of(bytes, tuning);
      ASSERT_GE(chunks * chunk_of(bytes, tuning), bytes);
      ASSERT_LT((chunks - 1) * chunk_of(bytes, tuning), bytes);
      ASSERT_LE(chunks, kMaxChunks) << bytes;
    }
  }
}

TEST(Choice, TeamsOfTwoRanksMeet) {
  for (int size = 1; size <= kMaxRanks; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      std::set<std::pair<int, int>> places;
      for (int team = 0; team < size * 5; ++team) {
        const TeamPlace place = team_place(team, rank, size);
        ASSERT_TRUE(place.peer >= 0 && place.peer < size && place.channel >= 0 && place.channel < 5);
        ASSERT_EQ(place.channel, team / size) << "channel by channel";
        places.insert({place.peer, place.channel});
      }
      ASSERT_EQ(places.size(), static_cast<std::size_t>(size) * 5) << "rank " << rank << " of " << size;
    }
  }
}

TEST(Choice, ACallHasTheChannelsOfItsLongestBlock) {
  Call call{};
  call.region.size = 3;
  EXPECT_EQ(channels_of_call(call), 1);
  call.blocks[1].receive_bytes = 100 << 20;
  EXPECT_EQ(channels_of_call(call), call.region.tuning.bulk_channels);
  call.blocks[1].receive_bytes = 0;
  call.blocks[2].send_bytes = 3 * call.region.tuning.line_share;
  EXPECT_EQ(channels_of_call(call), 3);
}

TEST(Choice, ChannelsBesideCopiesHaveWords) {
  for (int size = 2; size <= kMaxRanks; ++size) {
    for (int channels = 1; channels <= 64; ++channels) {
      Region region{size, {}};
      region.tuning.line_channels = std::min(channels, region.tuning.line_channels);
      region.tuning.bulk_channels = channels;
      const int beside = channels_beside_copies(region);
      ASSERT_GE(beside, 1) << size << " ranks, " << channels << " channels";
      ASSERT_LE(beside, region.channels()) << size << " ranks, " << channels << " channels";
      const Word stored = 1000 - copied_bytes(1000, 300, region);
      ASSERT_EQ(stored, beside == 1 ? 0U : 300U) << "the first channel stores nothing";
      ASSERT_EQ(copied_bytes(200, 300, region), beside == 1 ? 200U : 0U);
    }
  }
  EXPECT_EQ(channels_beside_copies({2, {}}), 17);
}

}  // namespace
}  // namespace tapa::device
