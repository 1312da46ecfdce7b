// Calls along edges between nodes: blocks that do not fit, ranks without edges, and one that comes late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

constexpr int kGuard = 0x5a5a5a5a;

class NeighboursTest : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ASSERT_EQ(size_, 4);
  }
  void TearDown() override {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  /// Each of the first `members` ranks sends to the next two of them.
  void make_graph(int members) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    constexpr std::array<int, 2> weights{1, 1};
    const int edges = rank_ < members ? 2 : 0;
    for (int i = 0; i < edges; ++i) {
      out[static_cast<std::size_t>(i)] = (rank_ + 1 + i) % members;
      in[static_cast<std::size_t>(i)] = (rank_ - 1 - i + members) % members;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, edges, in.data(), weights.data(), edges, out.data(),
                                   weights.data(), MPI_INFO_NULL, 0, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
  }
  int call(int received) {
    const std::array<int, 2> send{10 * rank_, 10 * rank_ + 1};
    recv_.fill(kGuard);
    return TAPA_Neighbor_alltoall(send.data(), 1, MPI_INT, recv_.data(), received, MPI_INT, comm_);
  }

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::array<int, 2> recv_{};
};

TEST_F(NeighboursTest, WhatDoesNotFitIsNotWritten) {
  make_graph(4);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(call(1), MPI_SUCCESS) << TAPA_Last_error();
  const int code = call(rank_ == 1 ? 0 : 1);
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  if (rank_ == 1) {
    EXPECT_EQ(found, MPI_ERR_TRUNCATE);
    EXPECT_THAT(TAPA_Last_error(), testing::HasSubstr("4 bytes or more, expected 0"));
    EXPECT_THAT(recv_, testing::Each(kGuard));
  }
  // Nobody waits, and the next call is right.
  ASSERT_EQ(call(1), MPI_SUCCESS) << TAPA_Last_error();
  EXPECT_THAT(recv_, testing::ElementsAre(10 * ((rank_ + 3) % 4), 10 * ((rank_ + 2) % 4) + 1));
}

TEST_F(NeighboursTest, RanksWithoutEdgesNeedNotKnowTheSize) {
  make_graph(3);
  for (int i = 0; i < 20; ++i) {
    if (rank_ == 3) {
      ASSERT_EQ(TAPA_Neighbor_alltoall(nullptr, 0, MPI_CHAR, nullptr, 0, MPI_CHAR, comm_), MPI_SUCCESS)
          << TAPA_Last_error();
    } else {
      ASSERT_EQ(call(1), MPI_SUCCESS) << TAPA_Last_error();
      EXPECT_THAT(recv_, testing::ElementsAre(10 * ((rank_ + 2) % 3), 10 * ((rank_ + 1) % 3) + 1));
    }
  }
}

// The watchdog's line is what the test wants to see.
TEST_F(NeighboursTest, WhoIsLateIsNamed) {
  make_graph(4);
  ASSERT_EQ(call(1), MPI_SUCCESS) << TAPA_Last_error();
  if (rank_ == 3) usleep(1500000);
  ASSERT_EQ(call(1), MPI_SUCCESS) << TAPA_Last_error();
}

}  // namespace
