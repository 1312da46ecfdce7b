#include "run/staged_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tapa {
namespace {

using ::testing::ElementsAre;

using Bytes = std::map<std::ptrdiff_t, int>;  // how often each is there

Bytes bytes_of(std::span<const DataRun> element, std::ptrdiff_t extent, std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    for (const DataRun& run : element) {
      for (std::size_t b = 0; b < run.bytes; ++b)
        ++bytes[extent * static_cast<std::ptrdiff_t>(i) + run.first + static_cast<std::ptrdiff_t>(b)];
    }
  }
  return bytes;
}

Bytes bytes_of(const std::vector<DataRows>& all) {
  Bytes bytes;
  for (const DataRows& r : all) {
    EXPECT_TRUE(r.rows == 1 || r.pitch >= r.bytes) << "rows that overlap cannot be copied as such";
    for (std::size_t row = 0; row < r.rows; ++row) {
      for (std::size_t b = 0; b < r.bytes; ++b)
        ++bytes[r.first + static_cast<std::ptrdiff_t>(row * r.pitch + b)];
    }
  }
  return bytes;
}

TEST(StagedRows, EachByteOfDataOnceAndNoOther) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<DataRun> element;
    std::ptrdiff_t at = static_cast<std::ptrdiff_t>(random() % 9) - 4;
    const bool regular = random() % 2 == 0;
    const auto length = random() % 5;
    const auto gap = random() % 4;
    for (unsigned run = 0; run < 1 + random() % 6; ++run) {
      const auto bytes = regular ? length : random() % 5;
      element.push_back({at, bytes});
      at += static_cast<std::ptrdiff_t>(bytes + (regular ? gap : random() % 4));
    }
    // Any extent at which no two elements share a byte.
    const auto extent = static_cast<std::ptrdiff_t>(random() % 60) - 30;
    const std::size_t count = random() % 6;
    const Bytes expected = bytes_of(element, extent, count);
    bool apart = true;
    for (const auto& [place, times] : expected) apart = apart && times == 1;
    if (!apart) continue;
    EXPECT_EQ(bytes_of(rows_of(element, extent, count)), expected) << "round " << round;
  }
}

TEST(StagedRows, CommonLayoutsAreOneCopy) {
  const std::vector<DataRun> dense{{0, 8}};
  EXPECT_THAT(rows_of(dense, 8, 100), ElementsAre(DataRows{0, 800, 1, 8}));
  EXPECT_THAT(rows_of(dense, 24, 100), ElementsAre(DataRows{0, 8, 100, 24}));
  // Columns of a matrix of 3 rows of 10: an element is a column, the next begins beside it.
  const std::vector<DataRun> column{{0, 4}, {40, 4}, {80, 4}};
  EXPECT_THAT(rows_of(column, 4, 5), ElementsAre(DataRows{0, 20, 3, 40}));
  EXPECT_THAT(rows_of(column, 120, 5), ElementsAre(DataRows{0, 4, 15, 40}));
}

TEST(StagedRows, FewOfManyElementsWhoseRunsAreIrregular) {
  const std::vector<DataRun> element{{0, 3}, {5, 1}};
  EXPECT_EQ(rows_of(element, 8, 1000).size(), 2U);
  EXPECT_EQ(rows_of(element, -8, 3).size(), 6U);
}

TEST(StagedRows, RunsAreWhatUnpackingWrites) {
  const auto b = [](std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  };
  // Written with zeros: bytes 1, 2 and 5.
  const auto zeros = b({0, 0, 0, 0, 0, 0, 0});
  const auto ones = b({255, 0, 0, 255, 255, 0, 255});
  EXPECT_THAT(written_runs(zeros, ones, -2), ElementsAre(DataRun{-1, 2}, DataRun{3, 1}));
  EXPECT_TRUE(written_runs({}, {}, 0).empty());
}

}  // namespace
}  // namespace tapa
