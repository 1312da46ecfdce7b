// Blocks as kernels get them: every number where the layout has it.
#include "wire/device/block_jobs.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "../message_of.hpp"
#include "wire/pack.hpp"

namespace dit {
namespace {

// The elements of a block in its order, by pack(): of a tensor of its own indices.
std::vector<std::int32_t> expected_of(const PeerBlock& block, const TensorShape& shape,
                                      const TensorStrides& strides, std::size_t elements) {
  std::vector<std::int32_t> tensor(elements), packed(static_cast<std::size_t>(block.elements()));
  std::iota(tensor.begin(), tensor.end(), 0);
  pack(std::span(&block, 1), 4, SourceTensor(std::as_bytes(std::span(tensor)), shape, strides),
       std::as_writable_bytes(std::span(packed)));
  return packed;
}

void expect_numbers(const BlockPlace& place, const std::vector<std::int32_t>& expected, int& plain) {
  const auto count = static_cast<std::uint32_t>(expected.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(offset_of(place, index_of(place, i)), expected[i]) << "number " << i;
  }
  for (std::uint32_t first = 0; first < count; first += 700) {
    const std::uint32_t some = std::min<std::uint32_t>(1024, count - first);
    const Line line = line_of(place, first, some);
    for (std::uint32_t i = 0; line.rows > 0 && i < some; ++i) {
      ASSERT_EQ(offset_in(place, line, i), expected[first + i]) << "number " << i << " from " << first;
    }
    if (!place.plain) continue;
    const PlainRows<4> rows(place, first);
    for (std::uint32_t i = 0; i < some; ++i) {
      ASSERT_EQ((rows.at(i) - place.tensor) / 4, expected[first + i]) << "number " << i << " from " << first;
    }
    ++plain;
  }
}

TEST(BlockJobs, NumbersAreWhereTheLayoutHasThem) {
  int plain = 0;
  for (const AttentionShape& shape : {AttentionShape{1, 5, 40, 6, 6, 16}, AttentionShape{9, 7, 23, 5, 5, 40},
                                      AttentionShape{20, 3, 6, 6, 3, 8}, AttentionShape{2, 8, 90, 6, 6, 1}}) {
    for (const int ranks : {1, 2, 3, 7}) {
      const UlyssesLayout layouts(shape, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const AttentionTensor tensor : {AttentionTensor::key, AttentionTensor::output}) {
          const TensorShape of = tensor == AttentionTensor::output ? layouts.head_shape(tensor, rank)
                                                                   : layouts.sequence_shape(tensor, rank);
          const TensorStrides dense = dense_strides(of);
          const TensorStrides fused{3 * dense.batch, 3 * dense.row, dense.head};
          const TensorStrides apart{of.heads * of.rows * of.head_dim, of.head_dim, of.rows * of.head_dim};
          for (const TensorStrides& strides : {dense, fused, apart}) {
            for (const PeerBlock& block : layouts.exchange(tensor, rank).send) {
              if (block.elements() == 0) continue;
              expect_numbers(place_of(block, WireElement::fp32, nullptr, of, strides),
                             expected_of(block, of, strides, static_cast<std::size_t>(extent(of, strides))),
                             plain);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(plain, 100) << "places that are plain are hardly tried";
}

TEST(BlockJobs, DivisorsAreExact) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const auto by = static_cast<std::uint32_t>(1 + (random() >> (random() % 32)) % 0xffffffffU);
    const auto number = static_cast<std::uint32_t>(random() >> (random() % 32));
    for (const std::uint32_t n : {number, number / by * by, number / by * by - 1, ~0U}) {
      ASSERT_EQ(quotient(n, divisor(by)), n / by) << n << " / " << by;
    }
    const std::uint32_t near =
        static_cast<std::uint32_t>(random() % (std::min(by, 1U << 30U) + std::uint64_t{1024}));
    ASSERT_EQ(short_quotient(near, divisor(by)), by > 1024 ? (near >= by ? 1U : 0U) : near / by)
        << near << " / " << by;
  }
}

TEST(BlockJobs, UnitsOnlyWhereAllLiesAtMultiples) {
  alignas(16) std::byte memory[16];
  const auto is_wide = [&](std::byte* tensor, std::int64_t row, std::int64_t offset, std::int64_t stride) {
    const PeerBlock block{row, {{offset, 4, stride}}};
    return place_of(block, WireElement::bf16, tensor, {}, {}).wide;
  };
  EXPECT_TRUE(is_wide(memory, 64, 128, 256));
  EXPECT_FALSE(is_wide(memory + 2, 64, 128, 256));
  EXPECT_FALSE(is_wide(memory, 60, 128, 256));
  EXPECT_FALSE(is_wide(memory, 64, 129, 256));
  EXPECT_FALSE(is_wide(memory, 64, 128, 255));
}

TEST(BlockJobs, WhatIsTooMuchIsSaid) {
  PeerBlock irregular{4, {}};
  for (std::int64_t i = 0; i < 20; ++i) irregular.runs.push_back({i * i * 100, 1 + i % 3, 4});
  EXPECT_EQ(message_of<std::length_error>(
                [&] { static_cast<void>(place_of(irregular, WireElement::fp32, nullptr, {}, {})); }),
            "a block of 20 runs of rows on a device: expected at most 6, or that they repeat");
  const PeerBlock huge{std::int64_t{1} << 20, {{0, 4096, std::int64_t{1} << 20}}};
  EXPECT_EQ(message_of<std::length_error>(
                [&] { static_cast<void>(place_of(huge, WireElement::fp32, nullptr, {}, {})); }),
            "a block of 4294967296 numbers on a device: expected less than 2^32");
}

}  // namespace
}  // namespace dit
