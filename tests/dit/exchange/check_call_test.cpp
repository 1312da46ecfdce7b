#include "exchange/check_call.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "sample_call.hpp"

namespace dit {
namespace {

TEST(CheckCall, TakesWhatIsRight) {
  SampleCall sample;
  EXPECT_EQ(sample.check(), "");
  sample.select();
  EXPECT_EQ(sample.check(), "");
  sample.call.struct_size += 16;  // a caller that knows more than this plugin
  sample.call.flags = DIT_EXCHANGE_BLOCKING;
  EXPECT_EQ(sample.check(), "");
}

TEST(CheckCall, NullBuffersAreFineWhereNothingTravels) {
  SampleCall sample;
  sample.call.send = nullptr;
  sample.call.recv = nullptr;
  for (std::size_t peer = 0; peer < SampleCall::size; ++peer)
    sample.send_blocks[peer] = sample.recv_blocks[peer] = {7, 0};
  EXPECT_EQ(sample.check(), "");
}

TEST(CheckCall, NullCall) {
  const SampleCall sample;
  EXPECT_EQ(check_call(nullptr, sample.place), "call is null, expected a dit_exchange_call");
}

TEST(CheckCall, FixedFields) {
  SampleCall sample;
  const dit_exchange_call right = sample.call;
  sample.call.struct_size = 8;
  EXPECT_EQ(sample.check(), "call.struct_size is 8, expected sizeof(dit_exchange_call), 88 or more");
  sample.call = right;
  sample.call.flags = 6;
  EXPECT_EQ(sample.check(), "call.flags is 6, expected 0 or DIT_EXCHANGE_BLOCKING (1)");
  sample.call = right;
  sample.call.memory_kind = 9;
  EXPECT_EQ(sample.check(), "call.memory_kind is 9, expected a dit_memory_kind: 0 (host) or 1 (cuda)");
  sample.call = right;
  sample.call.device = -1;
  EXPECT_EQ(sample.check(), "call.device is -1, expected 0 or more");
  sample.call.device = 2;
  EXPECT_EQ(sample.check(), "call.device is 2, expected 0 for host memory");
  sample.call.memory_kind = DIT_MEMORY_CUDA;
  EXPECT_EQ(sample.check(), "");
}

TEST(CheckCall, Blocks) {
  SampleCall sample;
  const dit_exchange_call right = sample.call;
  sample.call.send_blocks = nullptr;
  EXPECT_EQ(sample.check(), "call.send_blocks is null, expected 4 blocks");
  sample.call = right;
  sample.call.recv_blocks = nullptr;
  EXPECT_EQ(sample.check(), "call.recv_blocks is null, expected 4 blocks");
  sample.call = right;
  sample.call.send = nullptr;
  EXPECT_EQ(sample.check(), "call.send is null, but call.send_blocks[0] has 24 bytes");
  sample.call = right;
  sample.call.recv = nullptr;
  EXPECT_EQ(sample.check(), "call.recv is null, but call.recv_blocks[0] has 24 bytes");
  sample.call = right;
  sample.recv_blocks[1].bytes = 20;
  EXPECT_EQ(sample.check(), "call.recv_blocks[1] has 20 bytes, but this rank sends itself 24");
  sample.recv_blocks[1].bytes = 24;
  sample.send_blocks[2].bytes = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(sample.check(),
            "call.send_blocks[2] ends past the end of memory: offset 48, 18446744073709551615 bytes");
}

TEST(CheckCall, Overlaps) {
  SampleCall sample;
  sample.send_blocks[3].offset = 1;  // the same bytes to several peers
  EXPECT_EQ(sample.check(), "");
  sample.recv_blocks[2].offset = 30;
  EXPECT_EQ(sample.check(),
            "call.recv_blocks[2] overlaps call.recv_blocks[1] by 18 bytes: what is received must not overlap "
            "other blocks");
  SampleCall in_place;
  in_place.call.recv = in_place.send_buffer.data();
  EXPECT_NE(in_place.check().find("by 24 bytes: what is received must not overlap other blocks"),
            std::string::npos);
  // Short blocks behind the start of a long one.
  SampleCall nested;
  nested.recv_blocks = {dit_block{0, 90}, {24, 24}, {91, 1}, {60, 4}};
  EXPECT_EQ(nested.check(),
            "call.recv_blocks[1] overlaps call.recv_blocks[0] by 24 bytes: what is received must not overlap "
            "other blocks");
}

TEST(CheckCall, StridedOverlaps) {
  SampleCall sample;
  std::array<dit_strided_block, SampleCall::size> blocks;
  for (std::size_t peer = 0; peer < SampleCall::size; ++peer)
    blocks[peer] = {peer * SampleCall::block_bytes, 4, 3, 4, 2, 12};
  sample.call.send_strided = sample.call.recv_strided = blocks.data();
  EXPECT_EQ(sample.check(), "");
  for (dit_strided_block& each : blocks) each.row_stride = 8, each.plane_stride = 4;  // between the rows
  EXPECT_EQ(sample.check(), "");
  for (dit_strided_block& each : blocks) each.plane_stride = 8;
  EXPECT_EQ(
      sample.check(),
      "call.recv_strided[0].plane_stride is 8, expected planes behind or between rows, as what is received "
      "must not overlap");
  sample.call.recv_strided = nullptr;  // what is sent may
  EXPECT_EQ(sample.check(), "");
}

TEST(CheckCall, SelectionFields) {
  SampleCall sample;
  sample.select();
  const dit_row_selection right = sample.selection;
  sample.selection.struct_size = 3;
  EXPECT_EQ(sample.check(), "selection.struct_size is 3, expected sizeof(dit_row_selection), 64 or more");
  sample.selection = right;
  sample.selection.row_bytes = 0;
  EXPECT_EQ(sample.check(), "selection.row_bytes is 0, expected at least 1");
  sample.selection.row_bytes = 7;
  EXPECT_EQ(sample.check(),
            "call.send_blocks[0] has 24 bytes, expected a multiple of selection.row_bytes (7)");
  sample.selection = right;
  sample.selection.boundary = -1;
  EXPECT_EQ(sample.check(), "selection.boundary is -1, expected a level from 0 to 1, or 2 to select nowhere");
  sample.selection.boundary = 3;
  EXPECT_EQ(sample.check(), "selection.boundary is 3, expected a level from 0 to 1, or 2 to select nowhere");
  sample.selection = right;
  sample.selection.send_counts = nullptr;
  EXPECT_EQ(sample.check(), "selection.send_counts is null, expected 4 entries");
  sample.selection = right;
  sample.selection.recv_rows = nullptr;
  EXPECT_EQ(sample.check(), "selection.recv_rows is null, expected 4 entries");
}

TEST(CheckCall, SelectedRows) {
  SampleCall sample;
  sample.select();
  sample.send_rows[2] = nullptr;
  EXPECT_EQ(sample.check(), "selection.send_rows[2] is null, expected 3 row numbers");
  sample.use_lists();
  sample.send_counts[3] = 7;
  EXPECT_EQ(sample.check(), "selection.send_counts[3] is 7, but the block has 6 rows");
  sample.send_lists[3] = {0, 6};
  sample.use_lists();
  EXPECT_EQ(sample.check(), "selection.send_rows[3][1] is row 6, but the block has 6 rows");
  sample.send_lists[3] = {0};
  sample.recv_lists[2] = {4, 4};
  sample.use_lists();
  EXPECT_EQ(sample.check(), "selection.recv_rows[2][1] is row 4 after row 4, expected ascending row numbers");
}

TEST(CheckCall, ListsOfWholeBlocksAreNotRead) {
  SampleCall sample;
  sample.select();
  sample.send_rows[0] = sample.send_rows[1] = nullptr;  // a near peer, and the rank itself
  sample.recv_counts[0] = 1000;
  EXPECT_EQ(sample.check(), "");
  sample.selection.boundary = 0;
  EXPECT_EQ(sample.check(), "selection.send_rows[0] is null, expected 3 row numbers");
}

TEST(CheckHostMemory, NamesTheKind) {
  SampleCall sample;
  EXPECT_EQ(check_host_memory(sample.call, "local"), "");
  sample.call.memory_kind = DIT_MEMORY_CUDA;
  EXPECT_EQ(check_host_memory(sample.call, "local"),
            "plugin local moves host memory only, call.memory_kind is 1 (cuda)");
}

TEST(CheckOpen, Arguments) {
  dit_context* context = nullptr;
  dit_open_options options{sizeof(dit_open_options), nullptr, 0, nullptr};
  EXPECT_EQ(check_open(&options, &context), "");
  EXPECT_EQ(check_open(nullptr, &context), "options is null, expected dit_open_options");
  EXPECT_EQ(check_open(&options, nullptr), "context is null, expected where to put the context");
  options.timeout_seconds = -1;
  EXPECT_EQ(check_open(&options, &context),
            "options.timeout_seconds is -1.000000, expected 0 (never) or more");
  options.timeout_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(check_open(&options, &context), "");
  options.struct_size = 0;
  EXPECT_EQ(check_open(&options, &context),
            "options.struct_size is 0, expected sizeof(dit_open_options), 32 or more");
}

TEST(CallName, HasTheLabel) {
  EXPECT_EQ(call_name(nullptr), "the exchange");
  EXPECT_EQ(call_name("v"), "exchange 'v'");
}

}  // namespace
}  // namespace dit
