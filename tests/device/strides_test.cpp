// Strided blocks: fewer rows with the same bytes, addresses of positions, and what receivers say of them.
#include "device/strides.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "device/ready.hpp"
#include "device/rows.hpp"

namespace tapa::device {
namespace {

/// Where each byte of a block is, one by one.
std::vector<Word> places_of(const Strides& strides) {
  std::vector<Word> places;
  for (Word plane = 0; plane < strides.planes; ++plane) {
    for (Word row = 0; row < strides.rows; ++row) {
      for (Word byte = 0; byte < strides.row_bytes; ++byte) {
        places.push_back(plane * strides.plane_stride + row * strides.row_stride + byte);
      }
    }
  }
  return places;
}

/// Calls `body` with every small block.
template <class Body>
void for_small_blocks(const Body& body) {
  for (Word row_bytes = 0; row_bytes <= 4; ++row_bytes) {
    for (Word rows = 0; rows <= 4; ++rows) {
      for (Word planes = 0; planes <= 4; ++planes) {
        for (Word row_stride = 0; row_stride <= 9; ++row_stride) {
          for (Word plane_stride = 0; plane_stride <= 17; ++plane_stride) {
            body(Strides{row_bytes, rows, row_stride, planes, plane_stride});
          }
        }
      }
    }
  }
}

TEST(Strides, CollapsedBlocksHaveTheSameBytesInTheSamePlaces) {
  for_small_blocks([](const Strides& strides) {
    const Strides fewer = collapsed(strides);
    ASSERT_EQ(places_of(fewer), places_of(strides))
        << strides.row_bytes << " x " << strides.rows << " x " << strides.planes << ", strides "
        << strides.row_stride << ", " << strides.plane_stride;
    ASSERT_EQ(bytes_of(fewer), bytes_of(strides));
    ASSERT_EQ(extent_of(fewer), extent_of(strides));
  });
}

TEST(Strides, CollapsedBlocksHaveNoRowsThatTouch) {
  for_small_blocks([](const Strides& strides) {
    const Strides fewer = collapsed(strides);
    ASSERT_FALSE(fewer.rows > 1 && fewer.row_stride == fewer.row_bytes);
    ASSERT_FALSE(fewer.planes > 1 && fewer.plane_stride == fewer.rows * fewer.row_stride);
    ASSERT_FALSE(fewer.rows == 1 && fewer.planes > 1) << "planes of one row are rows";
    ASSERT_FALSE(fewer.rows <= 1 && fewer.row_stride != 0);
    ASSERT_FALSE(fewer.planes <= 1 && fewer.plane_stride != 0);
  });
}

TEST(Strides, TypicalBlocksCollapse) {
  const Strides tokens = collapsed({3072, 4608, 3072, 1, 0});
  EXPECT_EQ(tokens.row_bytes, 3072U * 4608);
  EXPECT_EQ(tokens.rows, 1U);
  const Strides fused = collapsed({3072, 4608, 3 * 3072, 3, 3072});  // a slice of a fused Q, K, V
  EXPECT_EQ(fused.rows, 4608U);
  EXPECT_EQ(fused.planes, 3U);
  EXPECT_EQ(collapsed({}).rows, 0U);
}

TEST(Strides, ExtentReachesBehindTheLastByte) {
  EXPECT_EQ(extent_of({}), 0U);
  EXPECT_EQ(extent_of({10, 3, 16, 1, 0}), 42U);
  EXPECT_EQ(extent_of({10, 3, 16, 2, 100}), 142U);
}

TEST(Rows, DividersAreExact) {
  std::minstd_rand random(5);
  std::vector<std::uint32_t> divisors = {0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  for (std::uint32_t divisor = 1; divisor < 3000; ++divisor) divisors.push_back(divisor);
  for (int i = 0; i < 3000; ++i) divisors.push_back(static_cast<std::uint32_t>(random()) * 2U + 1U);
  for (const std::uint32_t divisor : divisors) {
    const Divider by = divider(divisor);
    std::vector<std::uint32_t> numbers = {0, 1, 2, 0xfffffffc, 0xfffffffd, 0xfffffffe};
    for (const std::uint32_t times : {1U, 2U, 3U, 0xfffffffeU / divisor}) {
      for (const std::uint32_t off : {0U, 1U, 2U}) numbers.push_back(times * divisor - off);
    }
    for (int i = 0; i < 20; ++i) numbers.push_back(static_cast<std::uint32_t>(random()) * 2U);
    for (const std::uint32_t number : numbers) {
      if (number == 0xffffffff) continue;
      ASSERT_EQ(by.quotient(number), number / divisor) << number << " / " << divisor;
    }
  }
}

TEST(Rows, PositionsAreWhereTheBytesAre) {
  std::vector<std::byte> memory(1);
  for_small_blocks([&](const Strides& strides) {
    const Rows rows = rows_at(memory.data(), collapsed(strides));
    std::uint32_t position = 0;
    for (const Word place : places_of(strides)) {
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(rows.at(position++)),
                reinterpret_cast<std::uintptr_t>(memory.data()) + place);
    }
    const Strides again = strides_of(rows);
    ASSERT_EQ(places_of(again), places_of(strides));
  });
}

TEST(Rows, LongBlocksToo) {
  const Strides strides{3072, 16896, 9216, 3, Word{1} << 34};
  const Rows rows = rows_at(nullptr, collapsed(strides));
  std::minstd_rand random(9);
  for (int i = 0; i < 100000; ++i) {
    const auto position = static_cast<std::uint32_t>(random() % bytes_of(strides));
    const Word row = position / 3072;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.at(position)),
              position % 3072 + row % 16896 * 9216 + row / 16896 * (Word{1} << 34));
  }
}

void expect_same(const Strides& one, const Strides& other) {
  EXPECT_EQ(one.row_bytes, other.row_bytes);
  EXPECT_EQ(one.rows, other.rows);
  EXPECT_EQ(one.row_stride, other.row_stride);
  EXPECT_EQ(one.planes, other.planes);
  EXPECT_EQ(one.plane_stride, other.plane_stride);
}

TEST(Ready, WordsCarryEverything) {
  const Word strides[] = {0, 1, 0xaaaaaaaaaaaa, (Word{1} << 63) - 1};
  for (const Word stride : strides) {
    const Ready said{pack({0x7ffe, (Word{1} << 48) - 1}),
                     {kLongestStrided, 0x55555555, stride, kMostPlanes, stride / 3}};
    Word payloads[kReadyWords];
    for (int index = 0; index < kReadyWords; ++index) {
      payloads[index] = payload_of(said, index);
      EXPECT_LE(payloads[index], kPayloadMask);
    }
    const Ready heard = ready_from(payloads);
    EXPECT_EQ(heard.target, said.target);
    expect_same(heard.strides, said.strides);
  }
}

TEST(Ready, FiveWordsCarryABlockWhoseBytesLieTogether) {
  const Ready said{pack({3, 12345}), {(Word{1} << 42) - 1, 1, 0, 1, 0}};
  Word payloads[kPlainReadyWords];
  for (int index = 0; index < kPlainReadyWords; ++index) payloads[index] = payload_of(said, index);
  const Ready heard = ready_from(payloads);
  EXPECT_EQ(heard.target, said.target);
  expect_same(heard.strides, said.strides);
}

}  // namespace
}  // namespace tapa::device
