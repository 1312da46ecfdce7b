// What lies where in a rank's region: nothing overlaps, everything is aligned and inside.
#include "device/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/call.hpp"

namespace tapa::device {
namespace {

struct Part {
  Word begin, bytes, alignment;
};

std::vector<Part> parts_of(const Region& region) {
  std::vector<Part> parts{{0, sizeof(LocalState), alignof(LocalState)},
                          {sizeof(LocalState), sizeof(Teardowns), alignof(Teardowns)}};
  const Tuning& tuning = region.tuning;
  for (int peer = 0; peer < region.size; ++peer) {
    for (int channel = 0; channel < region.channels(); ++channel) {
      parts.push_back({region.words_at(peer, channel), sizeof(ChannelWords), alignof(ChannelWords)});
    }
    for (int mailbox = 0; mailbox < 2; ++mailbox) {
      parts.push_back({region.mailbox_at(peer, mailbox), region.mailbox_lines() * sizeof(Line), kGrain});
    }
    for (int channel = 0; peer + 1 < region.size && channel < tuning.bulk_channels; ++channel) {
      for (Word slot = 0; slot < kStagingSlots; ++slot) {
        parts.push_back({region.staging_at(peer, channel, slot), tuning.chunk, kGrain});
      }
    }
  }
  return parts;
}

TEST(Region, PartsDoNotOverlap) {
  for (int size = 1; size <= kMaxRanks; ++size) {
    for (const Word line_limit : {Word{0}, Word{1}, Word{1000}, Word{256} << 10}) {
      for (const int channels : {1, 3, 32}) {
        Tuning tuning;
        tuning.line_limit = line_limit;
        tuning.bulk_channels = channels;
        const Region region{size, tuning};
        std::vector<Part> parts = parts_of(region);
        std::ranges::sort(parts, {}, &Part::begin);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          ASSERT_EQ(parts[i].begin % parts[i].alignment, 0U);
          const Word end = i + 1 < parts.size() ? parts[i + 1].begin : region.bytes();
          ASSERT_LE(parts[i].begin + parts[i].bytes, end) << "part " << i << ", size " << size;
        }
      }
    }
  }
}

TEST(Region, EveryPeerHasAPlaceInAnOwnersStaging) {
  for (int owner = 0; owner < kMaxRanks; ++owner) {
    int next = 0;
    for (int peer = 0; peer < kMaxRanks; ++peer) {
      if (peer == owner) continue;
      EXPECT_EQ(staging_place(owner, peer), next++) << owner << " and " << peer;
    }
  }
}

TEST(Region, MailboxesHoldTheLongestBlockOfLines) {
  const Region region{2, {}};
  EXPECT_GE(region.mailbox_lines() * kLineData, region.tuning.line_limit);
}

}  // namespace
}  // namespace tapa::device
