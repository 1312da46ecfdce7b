#include "run/selection.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using tapa::BlockRows;
using tapa::RowRun;
using tapa::RowSelection;

std::vector<int> indices_of(unsigned mask, int rows) {
  std::vector<int> indices;
  for (int i = 0; i < rows; ++i) {
    if ((mask >> i & 1U) != 0) indices.push_back(i);
  }
  return indices;
}

std::string error_of(const std::vector<int>& active, std::size_t rows, std::size_t first) {
  try {
    tapa::check_active(active, rows, first, "the block for rank 3");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Runs, JoinNeighbours) {
  EXPECT_TRUE(tapa::runs_of({}).empty());
  const std::vector<int> indices{0, 1, 2, 5, 7, 8};
  EXPECT_EQ(tapa::runs_of(indices), (std::vector<RowRun>{{0, 3}, {5, 1}, {7, 2}}));
}

// All subsets of up to 10 rows: runs cover exactly the subset, are ascending and do not touch.
TEST(Runs, CoverExactlyTheSubset) {
  for (int rows = 0; rows <= 10; ++rows) {
    for (unsigned mask = 0; mask < 1U << rows; ++mask) {
      const auto runs = tapa::runs_of(indices_of(mask, rows));
      unsigned covered = 0;
      std::size_t end = 0;
      for (const RowRun& run : runs) {
        ASSERT_GE(run.count, 1U);
        ASSERT_TRUE(&run == runs.data() ? true : run.first > end);
        end = run.first + run.count;
        for (std::size_t i = run.first; i < end; ++i) covered |= 1U << i;
      }
      ASSERT_EQ(covered, mask);
    }
  }
}

TEST(CheckActive, AcceptsEverySubset) {
  for (unsigned mask = 0; mask < 256; ++mask) EXPECT_EQ(error_of(indices_of(mask, 8), 8, 0), "");
}

TEST(CheckActive, NamesEntryValueAndExpectation) {
  EXPECT_EQ(error_of({0, 5}, 5, 0),
            "active[1] of the block for rank 3 is 5, expected a row index of 0 or more and below 5");
  EXPECT_EQ(error_of({-1}, 5, 7),
            "active[7] of the block for rank 3 is -1, expected a row index of 0 or more and below 5");
  EXPECT_EQ(error_of({0}, 0, 2),
            "active[2] of the block for rank 3 is 0, expected a row index of 0 or more and below 0");
  EXPECT_EQ(error_of({2, 1}, 5, 10),
            "active[11] of the block for rank 3 is 1 after 2, expected ascending distinct indices");
  EXPECT_EQ(error_of({1, 2, 2}, 5, 0),
            "active[2] of the block for rank 3 is 2 after 2, expected ascending distinct indices");
}

TEST(TravellingRows, BelowTheBoundaryAllRowsTravel) {
  const std::vector<int> active{1, 3};
  for (int boundary = 0; boundary <= 4; ++boundary) {
    for (int level = 0; level <= 3; ++level) {
      const BlockRows block = tapa::travelling_rows(5, active, level, boundary);
      EXPECT_EQ(block.rows, 5U);
      if (level >= boundary) {
        EXPECT_EQ(block.travelling, 2U);
        EXPECT_EQ(block.runs, (std::vector<RowRun>{{1, 1}, {3, 1}}));
      } else {
        EXPECT_EQ(block.travelling, 5U);
        EXPECT_EQ(block.runs, (std::vector<RowRun>{{0, 5}}));
      }
    }
  }
  EXPECT_TRUE(tapa::travelling_rows(0, {}, 0, 1).runs.empty());
  EXPECT_TRUE(tapa::travelling_rows(5, {}, 1, 1).runs.empty());
}

// Gather then scatter, for all subsets of 7 rows and odd row sizes: active rows move, others keep what they
// hold.
TEST(GatherScatter, MovesActiveRowsOnly) {
  constexpr int kRows = 7;
  for (const std::size_t rowbytes : {1U, 3U, 7U, 64U}) {
    std::vector<std::byte> source(kRows * rowbytes);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31 + 1);
    for (unsigned mask = 0; mask < 1U << kRows; ++mask) {
      const auto active = indices_of(mask, kRows);
      const auto runs = tapa::runs_of(active);
      const std::size_t bytes = active.size() * rowbytes;
      std::vector<std::byte> packed(bytes + 1, std::byte{0xee});
      tapa::gather_rows(source.data(), rowbytes, runs, packed.data());
      ASSERT_EQ(packed[bytes], std::byte{0xee});
      for (std::size_t i = 0; i < active.size(); ++i) {
        for (std::size_t b = 0; b < rowbytes; ++b) {
          ASSERT_EQ(packed[i * rowbytes + b], source[static_cast<std::size_t>(active[i]) * rowbytes + b]);
        }
      }
      std::vector<std::byte> target(source.size(), std::byte{0xaa});
      tapa::scatter_rows(packed.data(), target.data(), rowbytes, runs);
      for (std::size_t i = 0; i < target.size(); ++i) {
        const bool is_active = (mask >> (i / rowbytes) & 1U) != 0;
        ASSERT_EQ(target[i], is_active ? source[i] : std::byte{0xaa});
      }
    }
  }
}

TEST(SelectionBytes, CountOtherRanksOnly) {
  const std::vector<int> active{0, 2};
  std::vector<BlockRows> send{tapa::travelling_rows(4, active, 0, 1), tapa::travelling_rows(4, active, 0, 1),
                              tapa::travelling_rows(4, active, 1, 1)};
  std::vector<BlockRows> recv{tapa::travelling_rows(1, {}, 1, 1), tapa::travelling_rows(4, active, 0, 1),
                              tapa::travelling_rows(9, {}, 0, 1)};
  const RowSelection selection(1, send, recv, {4, 4, 2, 4, 4, 2, 9, 9, 9});
  EXPECT_EQ(selection.ranks(), 3);
  EXPECT_EQ(selection.bytes_sent(3), (4U + 2U) * 3U);
  EXPECT_EQ(selection.bytes_received(5), 9U * 5U);
  EXPECT_EQ(selection.matrix(2), (std::vector<std::size_t>{8, 8, 4, 8, 8, 4, 18, 18, 18}));
  EXPECT_TRUE(RowSelection(1, send, recv, {}).matrix(2).empty());
}

}  // namespace
