#include "wire/pack.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace dit {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

bool operator==(const dit_block& a, const dit_block& b) {
  return a.offset == b.offset && a.bytes == b.bytes;
}

// Two rows of three elements, five apart, from element 1; one row from element 20; then nothing; then four
// rows that touch each other.
const std::vector<PeerBlock> kBlocks{{3, {{1, 2, 5}, {20, 1, 5}}}, {3, {}}, {0, {}}, {2, {{10, 4, 2}}}};

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> memory(bytes);
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i % 251);
  return memory;
}

template <typename Error, typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pack, BlocksFollowEachOther) {
  const std::vector<dit_block> blocks = packed_blocks(kBlocks, 4);
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_TRUE((blocks[0] == dit_block{0, 36}));
  EXPECT_TRUE((blocks[1] == dit_block{36, 0}));
  EXPECT_TRUE((blocks[2] == dit_block{36, 0}));
  EXPECT_TRUE((blocks[3] == dit_block{36, 32}));
  EXPECT_EQ(packed_bytes(kBlocks, 4), 68U);
  EXPECT_EQ(packed_bytes({}, 4), 0U);
}

TEST(Pack, RowsTravelInOrderForAllElementSizes) {
  for (const std::size_t bytes : {1, 2, 3, 4, 8, 16}) {
    const std::vector<std::byte> tensor = numbered(23 * bytes);
    std::vector<std::byte> buffer(packed_bytes(kBlocks, bytes));
    pack(kBlocks, bytes, tensor, buffer);
    std::size_t at = 0;
    for (const std::size_t element : {1, 2, 3, 6, 7, 8, 20, 21, 22, 10, 11, 12, 13, 14, 15, 16, 17}) {
      EXPECT_EQ(std::memcmp(&buffer[at], &tensor[element * bytes], bytes), 0) << element << " of " << bytes;
      at += bytes;
    }
    EXPECT_EQ(at, buffer.size());
    // Back to the same places, and nowhere else.
    std::vector<std::byte> again(tensor.size(), std::byte{255});
    unpack(kBlocks, bytes, buffer, again);
    for (const std::size_t untouched : {0, 4, 5, 9, 18, 19}) {
      EXPECT_EQ(again[untouched * bytes], std::byte{255});
      std::memcpy(&again[untouched * bytes], &tensor[untouched * bytes], bytes);
    }
    EXPECT_EQ(again, tensor);
  }
}

// Row sizes that have code of their own and those beside them.
TEST(Pack, RowsOfAllSizes) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    const std::vector<PeerBlock> blocks{{size, {{2, 3, size + 1}}}};
    const std::vector<std::byte> tensor = numbered(static_cast<std::size_t>(3 * size + 4));
    std::vector<std::byte> buffer(static_cast<std::size_t>(3 * size));
    pack(blocks, 1, tensor, buffer);
    std::vector<std::byte> again(tensor.size());
    unpack(blocks, 1, buffer, again);
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto at = static_cast<std::size_t>(2 + row * (size + 1));
      ASSERT_EQ(std::memcmp(&buffer[static_cast<std::size_t>(row * size)], &tensor[at],
                            static_cast<std::size_t>(size)),
                0);
      ASSERT_EQ(std::memcmp(&again[at], &tensor[at], static_cast<std::size_t>(size)), 0);
    }
  }
}

TEST(Pack, NothingToCopyNeedsNoMemory) {
  const std::vector<PeerBlock> blocks{{0, {{100, 5, 7}}}, {4, {{7, 0, 4}}}, {}};
  EXPECT_NO_THROW(pack(std::vector<PeerBlock>{{4, {}}, {}}, 4, {}, {}));
  EXPECT_NO_THROW(unpack({}, 4, {}, {}));
  const std::vector<std::byte> tensor = numbered(600);
  EXPECT_NO_THROW(pack(blocks, 4, tensor, {}));
}

TEST(Pack, RunsThatLeaveTheTensor) {
  std::vector<std::byte> memory(400), buffer(4000);
  const auto error = [&](const RowRun& run, std::int64_t row_elements) {
    const std::vector<PeerBlock> blocks{{1, {{0, 1, 1}}}, {row_elements, {{0, 1, 1}, run}}};
    const std::string packing = error_of<std::length_error>([&] { pack(blocks, 4, memory, buffer); });
    const std::string unpacking = error_of<std::length_error>([&] { unpack(blocks, 4, buffer, memory); });
    EXPECT_EQ(packing, unpacking);
    return packing;
  };
  EXPECT_EQ(error({97, 1, 10}, 3), "no error");
  EXPECT_EQ(error({98, 1, 10}, 3),
            "run 1 of the block of peer 1 leaves the tensor: 1 rows of 3 elements from element 98, stride "
            "10, in 100 "
            "elements");
  EXPECT_EQ(error({7, 10, 10}, 3), "no error");
  EXPECT_EQ(error({8, 10, 10}, 3),
            "run 1 of the block of peer 1 leaves the tensor: 10 rows of 3 elements from element 8, stride "
            "10, in 100 "
            "elements");
  EXPECT_EQ(error({1, 3, kHuge}, 3),
            "run 1 of the block of peer 1 leaves the tensor: 3 rows of 3 elements from element 1, stride "
            "9223372036854775807, in 100 elements");
  EXPECT_EQ(error({kHuge, 1, 1}, 3),
            "run 1 of the block of peer 1 leaves the tensor: 1 rows of 3 elements from element "
            "9223372036854775807, "
            "stride 1, in 100 elements");
  EXPECT_EQ(error({-1, 1, 1}, 3),
            "run 1 of the block of peer 1: offset -1, 1 rows of 3 elements, stride 1: expected none below 0");
  EXPECT_EQ(error({0, -2, 1}, 3),
            "run 1 of the block of peer 1: offset 0, -2 rows of 3 elements, stride 1: expected none below 0");
  EXPECT_EQ(error({0, 2, -1}, 3),
            "run 1 of the block of peer 1: offset 0, 2 rows of 3 elements, stride -1: expected none below 0");
}

TEST(Pack, SizesThatCannotBe) {
  std::vector<std::byte> memory(400), buffer(67);
  EXPECT_EQ(error_of<std::length_error>([&] { pack(kBlocks, 4, memory, buffer); }),
            "the buffer has 67 bytes: the blocks need 68");
  EXPECT_EQ(error_of<std::length_error>([&] { unpack(kBlocks, 4, buffer, memory); }),
            "the buffer has 67 bytes: the blocks need 68");
  EXPECT_EQ(error_of<std::length_error>([] {
              (void)packed_bytes(std::vector<PeerBlock>{{kHuge, {{0, 1, 1}}}}, 4);
            }),
            "run 0 of the block of peer 0: 1 rows of 9223372036854775807 elements of 4 bytes are more than "
            "2^63 bytes");
  const PeerBlock half{kHuge / 8, {{0, 1, 1}}};
  EXPECT_EQ(error_of<std::length_error>([&] {
              (void)packed_blocks(std::vector<PeerBlock>{half, half, half}, 4);
            }),
            "the blocks of 3 peers are more than 2^63 bytes");
  EXPECT_EQ(error_of<std::invalid_argument>([] { (void)packed_bytes(kBlocks, 0); }),
            "element_bytes = 0: expected 1 to 1024");
  EXPECT_EQ(error_of<std::invalid_argument>([] { (void)blocks_in_place(kBlocks, 1025); }),
            "element_bytes = 1025: expected 1 to 1024");
}

/// Strides of a tensor that lies [batch, heads, rows, head_dim].
TensorStrides heads_first(const TensorShape& shape) {
  return {shape.rows * shape.row_elements(), shape.head_dim, shape.rows * shape.head_dim};
}

// As through a buffer, for all ways in which the two tensors lie.
void expect_goes_right_into(const UlyssesLayout& layout, AttentionTensor tensor, int rank) {
  constexpr std::size_t kBytes = 2;
  const ExchangeLayout blocks = layout.exchange(tensor, rank, 0, 1);
  const auto own = static_cast<std::size_t>(rank);
  TensorShape from = layout.sequence_shape(tensor, rank);
  TensorShape to = layout.head_shape(tensor, rank, 0, 1);
  if (tensor == AttentionTensor::output) std::swap(from, to);
  const std::vector<std::byte> source = numbered(static_cast<std::size_t>(from.elements()) * kBytes);
  for (const TensorStrides& here : {dense_strides(from), heads_first(from)})
    for (const TensorStrides& there : {dense_strides(to), heads_first(to)}) {
      std::vector<std::byte> target(static_cast<std::size_t>(to.elements()) * kBytes), expected(target);
      const SourceTensor reads(source, from, here);
      std::vector<std::byte> buffer(packed_bytes(std::span(&blocks.send[own], 1), kBytes));
      pack(std::span(&blocks.send[own], 1), kBytes, reads, buffer);
      unpack(std::span(&blocks.recv[own], 1), kBytes, buffer, TargetTensor(expected, to, there));
      for (const RowCopy& copy :
           row_copies(blocks.send[own], reads, blocks.recv[own], TargetTensor(target, to, there), kBytes))
        for (std::size_t row = 0; row < copy.rows; ++row)
          std::memcpy(target.data() + copy.tensor + row * copy.tensor_stride,
                      source.data() + copy.buffer + row * copy.buffer_stride, copy.row_bytes);
      EXPECT_EQ(target, expected) << "tensor " << static_cast<int>(tensor) << " of rank " << rank;
    }
}

TEST(Pack, ABlockGoesRightIntoAnotherTensor) {
  for (const TextPlacement text : {TextPlacement::split, TextPlacement::replicated})
    for (const JointOrder order : {JointOrder::text_image, JointOrder::image_text})
      for (const auto& [heads, kv_heads] : {std::pair(6, 6), std::pair(4, 2)})
        for (const int ranks : {1, 3, 5}) {
          const AttentionShape shape{2, 7, 11, heads, kv_heads, 4, order, text};
          const UlyssesLayout layout(shape, ranks);
          for (int rank = 0; rank < ranks; ++rank)
            for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::key,
                                                 AttentionTensor::value, AttentionTensor::output})
              expect_goes_right_into(layout, tensor, rank);
        }
}

TEST(Pack, ABlockThatHasOtherRowsThere) {
  std::vector<std::byte> memory(24);
  const PeerBlock block{3, {{0, 2, 3}}};
  const PeerBlock less{3, {{0, 1, 3}}};
  const auto words = error_of<std::length_error>(
      [&] { (void)row_copies(block, SourceTensor(memory), less, TargetTensor(memory), 4); });
  EXPECT_EQ(words,
            "a block has 2 rows of 3 elements in the source and 1 of 3 in the target: expected the same");
}

TEST(BlocksInPlace, OnlyWhenEachBlockIsOnePiece) {
  const PeerBlock touching{2, {{10, 4, 2}}};
  const PeerBlock two_touching_runs{2, {{4, 2, 2}, {8, 0, 99}, {8, 1, 77}}};
  const std::vector<dit_block> blocks =
      blocks_in_place(std::vector{touching, PeerBlock{}, two_touching_runs}, 4);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_TRUE((blocks[0] == dit_block{40, 32}));
  EXPECT_TRUE((blocks[1] == dit_block{0, 0}));
  EXPECT_TRUE((blocks[2] == dit_block{16, 24}));
  EXPECT_TRUE(blocks_in_place(std::vector{touching, PeerBlock{2, {{0, 2, 3}}}}, 4).empty());
  EXPECT_TRUE(blocks_in_place(std::vector{PeerBlock{2, {{0, 1, 2}, {3, 1, 2}}}}, 4).empty());
}

// One sample of image tokens: what comes from a peer lies in one piece in the head layout.
TEST(BlocksInPlace, HeadLayoutOfOneSample) {
  const UlyssesLayout layout({1, 0, 4429, 38, 38, 8}, 12);
  const ExchangeLayout scatter = layout.scatter_heads(AttentionTensor::query, 5);
  EXPECT_EQ(blocks_in_place(scatter.recv, 2).size(), 12U);
  EXPECT_TRUE(blocks_in_place(scatter.send, 2).empty());
  EXPECT_EQ(blocks_in_place(layout.gather_heads(5).send, 2).size(), 12U);
}

// A tensor [2 samples, 5 rows, 3 heads, 4] of numbered elements in several places, against the dense one.
struct Places {
  const char* name;
  TensorStrides strides;
};
const TensorShape kShape{2, 5, 3, 4};
const Places kPlaces[] = {{"dense", dense_strides(kShape)},
                          {"slice of a fused QKV product", {5 * 36, 36, 4}},
                          {"heads of Q, K and V interleaved", {5 * 36, 36, 12}},
                          {"heads before rows", {60, 4, 20}},
                          {"rows before samples", {12, 24, 4}},
                          {"everywhere gaps", {1000, 100, 7}}};
// All of it; two heads of rows that run over the samples' ends; one head of one row; nothing.
const std::vector<PeerBlock> kHeadBlocks{
    {12, {{0, 10, 12}}}, {8, {{3 * 12 + 4, 4, 12}}}, {4, {{7 * 12 + 8, 1, 12}, {0, 2, 12}}}, {0, {}}};

std::vector<std::byte> strided(const std::vector<std::byte>& dense, const TensorStrides& strides,
                               std::size_t bytes) {
  std::vector<std::byte> memory(static_cast<std::size_t>(extent(kShape, strides)) * bytes, std::byte{255});
  for (std::int64_t i = 0; i < kShape.elements(); ++i) {
    const std::int64_t to =
        i / 60 * strides.batch + i / 12 % 5 * strides.row + i / 4 % 3 * strides.head + i % 4;
    std::memcpy(&memory[static_cast<std::size_t>(to) * bytes], &dense[static_cast<std::size_t>(i) * bytes],
                bytes);
  }
  return memory;
}

TEST(Pack, StridesChangeNoByteOfTheBuffer) {
  for (const std::size_t bytes : {1, 2, 4, 8}) {
    const std::vector<std::byte> dense = numbered(120 * bytes);
    std::vector<std::byte> expected(packed_bytes(kHeadBlocks, bytes));
    pack(kHeadBlocks, bytes, dense, expected);
    for (const Places& place : kPlaces) {
      const std::vector<std::byte> memory = strided(dense, place.strides, bytes);
      std::vector<std::byte> buffer(expected.size());
      pack(kHeadBlocks, bytes, SourceTensor(std::span(memory), kShape, place.strides), buffer);
      EXPECT_EQ(buffer, expected) << place.name;
    }
  }
}

TEST(Pack, UnpackWritesTheBlocksAndNothingElse) {
  for (const std::size_t bytes : {1, 2, 4, 8}) {
    const std::vector<std::byte> buffer = numbered(packed_bytes(kHeadBlocks, bytes));
    std::vector<std::byte> dense(120 * bytes, std::byte{255});
    unpack(kHeadBlocks, bytes, buffer, dense);
    for (const Places& place : kPlaces) {
      std::vector<std::byte> memory(static_cast<std::size_t>(extent(kShape, place.strides)) * bytes,
                                    std::byte{255});
      unpack(kHeadBlocks, bytes, buffer, TargetTensor(std::span(memory), kShape, place.strides));
      EXPECT_EQ(memory, strided(dense, place.strides, bytes)) << place.name;
    }
  }
}

TEST(Pack, StridesThatCannotBeAreNamed) {
  std::vector<std::byte> memory(1000), buffer(1000);
  const auto packed = [&](const TensorStrides& strides, const std::vector<PeerBlock>& blocks) {
    pack(blocks, 4, SourceTensor(std::span<const std::byte>(memory), kShape, strides), buffer);
  };
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              packed({60, -12, 4}, kHeadBlocks);
            }),
            "row stride = -12 elements: expected at least 0, within memory");
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              packed({kHuge, 12, 4}, kHeadBlocks);
            }),
            "batch stride = " + std::to_string(kHuge) + " elements: expected at least 0, within memory");
  EXPECT_EQ(error_of<std::length_error>([&] {
              packed({180, 36, 4}, kHeadBlocks);
            }),
            "the tensor has 1000 bytes: its shape and strides need 1344");
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              packed({61, 12, 4}, {{2, {{0, 1, 12}}}});
            }),
            "a block is not of whole heads of the tensor's rows");
}

}  // namespace
}  // namespace dit
