// The sparse exchange where a rank has no memory: it returns MPI_ERR_NO_MEM, nobody waits, and the next call
// is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "refused_memory.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

using testing::HasSubstr;

/// No message of MPI's own asks for so much, and each long one here for more.
constexpr std::size_t kLimit = std::size_t{1} << 20;
constexpr int kLong = 500'000;
constexpr int kPoor = 1;  // the rank without memory

class SparseMemory : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
    ASSERT_GE(size_, 3);
    limit_ = kNone;
    ASSERT_EQ(send({}, 0), MPI_SUCCESS) << error_;  // sets the communicator up
    limit_ = kLimit;
  }
  void TearDown() override { MPI_Comm_free(&comm_); }

  /// To some ranks, as many elements to each, of which each has the sender's number. Its error class.
  int send(const std::vector<int>& destinations, int count) {
    const std::vector<MPI_Count> counts(destinations.size(), count);
    const std::vector<int> elements(destinations.size() * static_cast<std::size_t>(count), rank_);
    TAPA_Received received = TAPA_RECEIVED_NULL;
    int code = MPI_SUCCESS;
    {
      const Refusing refusing(rank_ == kPoor ? limit_ : kNone);
      code = TAPA_Sparse_exchange(elements.data(), static_cast<int>(destinations.size()), destinations.data(),
                                  counts.data(), MPI_INT, comm_, &received);
    }
    error_ = TAPA_Last_error();
    take(received);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
  }

  void take(TAPA_Received received) {
    sources_.clear();
    right_ = true;
    if (received == TAPA_RECEIVED_NULL) return;
    int n = 0;
    const int* sources = nullptr;
    const MPI_Count* counts = nullptr;
    const void* data = nullptr;
    ASSERT_EQ(TAPA_Received_get(received, &n, &sources, &counts, &data), MPI_SUCCESS);
    const int* next = static_cast<const int*>(data);
    for (int i = 0; i < n; ++i) {
      sources_.push_back(sources[i]);
      for (MPI_Count k = 0; k < counts[i]; ++k) right_ = right_ && *next++ == sources[i];
    }
    TAPA_Received_free(&received);
  }

  static bool between_nodes() { return std::string_view(std::getenv("TAPA_TOPOLOGY")).front() != '1'; }

  std::vector<int> all() const {
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  void expect_all_from(const std::vector<int>& sources) {
    EXPECT_EQ(sources_, sources);
    EXPECT_TRUE(right_);
  }

  void expect_next_is_right() {
    limit_ = kNone;
    ASSERT_EQ(send(all(), kLong), MPI_SUCCESS) << error_;
    expect_all_from(all());
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::size_t limit_ = kNone;
  std::string error_;
  std::vector<int> sources_;
  bool right_ = true;
};

/// Long messages to all ranks, of which one can receive none; what it sends arrives.
TEST_F(SparseMemory, LongMessagesThatOneRankCannotReceive) {
  for (int call = 0; call < 3; ++call) {
    const int found = send(all(), kLong);
    if (rank_ == kPoor) {
      EXPECT_EQ(found, MPI_ERR_NO_MEM) << error_;
      EXPECT_THAT(error_, HasSubstr("memory"));
    } else {
      ASSERT_EQ(found, MPI_SUCCESS) << error_;
      expect_all_from(all());
    }
  }
  expect_next_is_right();
}

/// Short ones come beside it, and go.
TEST_F(SparseMemory, OneLongMessage) {
  const std::vector<int> destinations = rank_ == 0 ? std::vector<int>{kPoor} : all();
  const int found = send(destinations, rank_ == 0 ? kLong : 3);
  EXPECT_EQ(found, rank_ == kPoor ? MPI_ERR_NO_MEM : MPI_SUCCESS) << error_;
  std::vector<int> sources = all();
  sources.erase(sources.begin());
  if (rank_ != kPoor) expect_all_from(sources);
  expect_next_is_right();
}

TEST_F(SparseMemory, TheMessageToItself) {
  const int found = send({rank_, (rank_ + 1) % size_}, rank_ == kPoor ? kLong : 3);
  EXPECT_EQ(found, rank_ == kPoor ? MPI_ERR_NO_MEM : MPI_SUCCESS) << error_;
  expect_next_is_right();
}

/// Between nodes messages go in envelopes. Whoever has no memory for these sends nothing, of which all learn.
TEST_F(SparseMemory, NothingCanBeSent) {
  limit_ = 2000;
  const int found = send(all(), 3);
  if (between_nodes()) {
    EXPECT_EQ(found, rank_ == kPoor ? MPI_ERR_NO_MEM : MPI_ERR_OTHER) << error_;
    EXPECT_THAT(error_, HasSubstr("memory"));
  } else {
    EXPECT_EQ(found, MPI_SUCCESS) << error_;
  }
  expect_next_is_right();
}

}  // namespace
