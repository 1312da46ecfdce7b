#include "exchange/select_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sample_call.hpp"

namespace dit {

static bool operator==(const ByteRun& a, const ByteRun& b) {
  return a.offset == b.offset && a.bytes == b.bytes;
}

namespace {

using testing::ElementsAre;

TEST(SelectRows, WithoutSelectionBlocksAreWhole) {
  const SampleCall sample;
  EXPECT_THAT(send_runs(sample.call, sample.place, 2), ElementsAre(ByteRun{48, 24}));
  EXPECT_EQ(bytes_from(sample.call, sample.place, 3), 24u);
  EXPECT_FALSE(rows_selected(sample.call, sample.place, 3));
}

TEST(SelectRows, NeighbouringRowsAreOneRun) {
  SampleCall sample;
  sample.select();
  EXPECT_THAT(send_runs(sample.call, sample.place, 2), ElementsAre(ByteRun{48, 8}, ByteRun{64, 4}));
  EXPECT_THAT(recv_runs(sample.call, sample.place, 2), ElementsAre(ByteRun{56, 4}, ByteRun{68, 4}));
  EXPECT_THAT(send_runs(sample.call, sample.place, 0), ElementsAre(ByteRun{0, 24}));
  EXPECT_THAT(send_runs(sample.call, sample.place, 1), ElementsAre(ByteRun{24, 24}));
  EXPECT_EQ(bytes_to(sample.call, sample.place, 2), 12u);
  EXPECT_EQ(bytes_from(sample.call, sample.place, 2), 8u);
  EXPECT_EQ(total_bytes(send_runs(sample.call, sample.place, 2)), 12u);
}

TEST(SelectRows, BoundaryZeroSelectsForAllButOneself) {
  SampleCall sample;
  sample.select();
  sample.selection.boundary = 0;
  EXPECT_TRUE(rows_selected(sample.call, sample.place, 0));
  EXPECT_FALSE(rows_selected(sample.call, sample.place, 1));
  sample.selection.boundary = 2;
  EXPECT_FALSE(rows_selected(sample.call, sample.place, 3));
}

TEST(SelectRows, TotalsAreByLevelWithoutOneself) {
  SampleCall sample;
  sample.select();
  dit_exchange_totals totals{};
  count_sent(sample.call, sample.place, totals);
  EXPECT_EQ(totals.sent_bytes[0], 24u);
  EXPECT_EQ(totals.sent_bytes[1], 2 * 12u);
}

TEST(PackedCall, PacksAndPutsInPlace) {
  SampleCall sample;
  sample.select();
  PackedCall packed(sample.call, sample.place);
  ASSERT_EQ(packed.packed_send().size(), 24u + 12u + 12u);
  EXPECT_EQ(packed.send_blocks()[1].bytes, 0u);
  EXPECT_EQ(packed.send_blocks()[3].offset, 36u);
  EXPECT_EQ(packed.packed_send()[24 + 8], std::byte{48 + 16});  // row 4 for rank 2
  ASSERT_EQ(packed.packed_recv().size(), 24u + 8u + 8u);
  std::ranges::fill(packed.packed_recv(), std::byte{1});
  packed.unpack();
  EXPECT_TRUE(std::equal(sample.recv_buffer.begin() + 24, sample.recv_buffer.begin() + 48,
                         sample.send_buffer.begin() + 24));
  for (std::size_t i = 0; i < SampleCall::block_bytes; ++i) {
    EXPECT_EQ(sample.recv_buffer[i], std::byte{1});
    const bool active = i / 4 == 2 || i / 4 == 5;
    EXPECT_EQ(sample.recv_buffer[48 + i], active ? std::byte{1} : std::byte{0xee}) << i;
  }
}

TEST(PackedCall, TakesEmptyBlocksAndNullBuffers) {
  SampleCall sample;
  sample.call.send = nullptr;
  sample.call.recv = nullptr;
  for (std::size_t peer = 0; peer < SampleCall::size; ++peer)
    sample.send_blocks[peer] = sample.recv_blocks[peer] = {0, 0};
  PackedCall packed(sample.call, sample.place);
  EXPECT_TRUE(packed.packed_send().empty());
  packed.unpack();
}

}  // namespace
}  // namespace dit
