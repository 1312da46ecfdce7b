// The sparse exchange: who receives what, with computed answers for random patterns, and what is refused; and
// alltoallv of few pairs. By memory and by messages, as TAPA_TOPOLOGY and TAPA_ENABLE say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

using testing::HasSubstr;

/// Elements of the message from a rank to another in a call; -1: there is none.
using Pattern = std::function<MPI_Count(int src, int dst, int call)>;

std::uint32_t mixed(int src, int dst, int call) {
  auto value = static_cast<std::uint32_t>(src * 7919 + dst * 104729 + call * 1299709);
  value = (value ^ value >> 15) * 0x2c1b3c6dU;
  value = (value ^ value >> 12) * 0x297a2d39U;
  return value ^ value >> 15;
}

int element(int src, int dst, int call, MPI_Count i) {
  return static_cast<int>(mixed(src, dst, call) % 100000) + static_cast<int>(i);
}

class SparseTest : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());  // of calls without a communicator
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  void TearDown() override { MPI_Comm_free(&comm_); }

  /// Makes a call, its destinations in an order of its own, and compares what comes with what should.
  void call(const Pattern& pattern, int number) {
    std::vector<int> destinations;
    for (int peer = 0; peer < size_; ++peer) {
      if (pattern(rank_, peer, number) >= 0) destinations.push_back(peer);
    }
    std::shuffle(destinations.begin(), destinations.end(), std::mt19937(mixed(rank_, 0, number)));
    std::vector<MPI_Count> counts;
    std::vector<int> send;
    for (const int peer : destinations) {
      counts.push_back(pattern(rank_, peer, number));
      for (MPI_Count i = 0; i < counts.back(); ++i) send.push_back(element(rank_, peer, number, i));
    }
    TAPA_Received received = TAPA_RECEIVED_NULL;
    ASSERT_EQ(TAPA_Sparse_exchange(send.data(), static_cast<int>(destinations.size()), destinations.data(),
                                   counts.data(), MPI_INT, comm_, &received),
              MPI_SUCCESS)
        << TAPA_Last_error();
    std::ranges::fill(send, -1);  // nobody reads it any more
    compare(pattern, number, received);
    ASSERT_EQ(TAPA_Received_free(&received), MPI_SUCCESS);
    EXPECT_EQ(received, TAPA_RECEIVED_NULL);
  }

  void compare(const Pattern& pattern, int number, TAPA_Received received) {
    int nsources = -1;
    const int* sources = nullptr;
    const MPI_Count* counts = nullptr;
    const void* data = nullptr;
    ASSERT_EQ(TAPA_Received_get(received, &nsources, &sources, &counts, &data), MPI_SUCCESS);
    int at = 0;
    const int* next = static_cast<const int*>(data);
    for (int peer = 0; peer < size_; ++peer) {
      const MPI_Count expected = pattern(peer, rank_, number);
      if (expected < 0) continue;
      ASSERT_LT(at, nsources) << "call " << number << ": nothing from rank " << peer;
      ASSERT_EQ(sources[at], peer) << "call " << number;
      ASSERT_EQ(counts[at], expected) << "call " << number << ", from rank " << peer;
      int wrong = 0;
      for (MPI_Count i = 0; i < expected; ++i) wrong += *next++ == element(peer, rank_, number, i) ? 0 : 1;
      ASSERT_EQ(wrong, 0) << "call " << number << ", from rank " << peer;
      ++at;
    }
    EXPECT_EQ(nsources, at) << "call " << number;
  }

  /// A call of this rank's that may be wrong; what it returned, its text in `error_`.
  int send_to(const std::vector<int>& destinations, const std::vector<MPI_Count>& counts,
              MPI_Datatype datatype = MPI_INT) {
    const std::vector<int> send(100);
    received_ = TAPA_RECEIVED_NULL;
    const int code = TAPA_Sparse_exchange(send.data(), static_cast<int>(destinations.size()),
                                          destinations.data(), counts.data(), datatype, comm_, &received_);
    error_ = TAPA_Last_error();
    if (received_ != TAPA_RECEIVED_NULL) TAPA_Received_free(&received_);
    return code;
  }

  /// Rank 0's call is wrong in some way: all ranks have an error, and the next call is right.
  void expect_refused(const std::function<int()>& wrong, int error_class, const std::string& text) {
    const int code = rank_ == 0 ? wrong() : send_to({0}, {1});
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    EXPECT_EQ(found, rank_ == 0 ? error_class : MPI_ERR_OTHER);
    EXPECT_THAT(error_, HasSubstr(rank_ == 0 ? text : "rank 0 made the call with wrong arguments"));
    EXPECT_EQ(received_, TAPA_RECEIVED_NULL);
    call([](int s, int d, int) { return s == d ? -1 : 3; }, 1);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  TAPA_Received received_ = TAPA_RECEIVED_NULL;
  std::string error_;
};

TEST_F(SparseTest, NobodyAndEverybody) {
  for (int number = 0; number < 4; ++number) {
    call([](int, int, int) { return -1; }, number);
    call([](int, int, int) { return 5; }, number);
    call([](int, int, int) { return 0; }, number);
    call([](int s, int d, int) { return s == d ? 9 : -1; }, number);
  }
}

TEST_F(SparseTest, OneToAllAndAllToOne) {
  for (int number = 0; number < 3 * size_; ++number) {
    call([&](int s, int d, int c) { return s == c % size_ ? d : -1; }, number);
    call([&](int s, int d, int c) { return d == c % size_ ? s : -1; }, number);
  }
}

TEST_F(SparseTest, RandomPatterns) {
  for (int number = 0; number < 60; ++number) {
    call(
        [](int s, int d, int c) -> MPI_Count {
          const std::uint32_t value = mixed(s, d, c);
          return value % 3 != 0 ? -1 : static_cast<MPI_Count>(value / 3 % (c % 4 == 3 ? 700 : 12));
        },
        number);
  }
}

/// A pair that was silent for long speaks again.
TEST_F(SparseTest, SeldomMessages) {
  for (int number = 0; number < 100; ++number)
    call([&](int s, int d, int c) { return c % 33 == 32 && d == (s + 1) % size_ ? 4 : -1; }, number);
}

/// Longer than what travels in one piece, beside short ones and empty ones.
TEST_F(SparseTest, LongMessages) {
  for (int number = 0; number < 3; ++number) {
    call(
        [&](int s, int d, int c) -> MPI_Count {
          if (d == (s + 1 + c) % size_) return 300'000 + s;
          return d == (s + 2) % size_ ? 6'000 + c : d == s ? 0 : -1;
        },
        number);
  }
}

TEST_F(SparseTest, BesideOtherCalls) {
  std::vector<int> send(static_cast<std::size_t>(size_));
  std::vector<int> recv(send.size());
  for (int number = 0; number < 20; ++number) {
    MPI_Request request = MPI_REQUEST_NULL;
    for (int peer = 0; peer < size_; ++peer)
      send[static_cast<std::size_t>(peer)] = element(rank_, peer, number, 0);
    if (number % 2 == 0) {
      ASSERT_EQ(TAPA_Ialltoall(send.data(), 1, MPI_INT, recv.data(), 1, MPI_INT, comm_, &request),
                MPI_SUCCESS);
    } else {
      ASSERT_EQ(TAPA_Alltoall(send.data(), 1, MPI_INT, recv.data(), 1, MPI_INT, comm_), MPI_SUCCESS);
    }
    call([&](int s, int d, int c) { return (s + d + c) % 3 == 0 ? 2 : -1; }, number);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size_; ++peer)
      ASSERT_EQ(recv[static_cast<std::size_t>(peer)], element(peer, rank_, number, 0)) << "call " << number;
  }
}

/// On several communicators in turn, one of them of some ranks in another order.
TEST_F(SparseTest, OtherCommunicators) {
  const MPI_Comm whole = comm_;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(whole, rank_ % 2, -rank_, &half);
  MPI_Comm_set_errhandler(half, tapa::errors_return());
  const int rank = rank_;
  const int size = size_;
  for (int number = 0; number < 10; ++number) {
    comm_ = half;
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    call([](int s, int d, int c) { return (s * 3 + d + c) % 2 == 0 ? s + d : -1; }, number);
    comm_ = whole;
    rank_ = rank;
    size_ = size;
    call([](int s, int d, int c) { return (s + d * 5 + c) % 4 == 0 ? 1 : -1; }, number);
  }
  MPI_Comm_free(&half);
}

/// Most counts are 0; some pairs speak seldom, some long, and blocking calls, nonblocking ones, calls in
/// place and of equal blocks take turns.
TEST_F(SparseTest, AlltoallvOfFewPairs) {
  const Pattern pattern = [&](int s, int d, int c) -> MPI_Count {
    const int way = (d - s + size_) % size_;
    if (c == 45 && way == 1) return 20'000;
    if (way == 1) return 1 + (s + c) % 9;
    return way == 2 && c % 37 == 36 ? 100 : 0;
  };
  const auto ranks = static_cast<std::size_t>(size_);
  for (int number = 0; number < 120; ++number) {
    std::vector<int> sendcounts(ranks), sdispls(ranks), recvcounts(ranks), rdispls(ranks);
    std::vector<int> send, expected;
    for (int peer = 0; peer < size_; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      sendcounts[at] = static_cast<int>(pattern(rank_, peer, number));
      recvcounts[at] = static_cast<int>(pattern(peer, rank_, number));
      sdispls[at] = static_cast<int>(send.size());
      rdispls[at] = static_cast<int>(expected.size());
      for (int i = 0; i < sendcounts[at]; ++i) send.push_back(element(rank_, peer, number, i));
      for (int i = 0; i < recvcounts[at]; ++i) expected.push_back(element(peer, rank_, number, i));
    }
    std::vector<int> recv(expected.size(), -1);
    if (number % 3 == 2) {
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_EQ(TAPA_Ialltoallv(send.data(), sendcounts.data(), sdispls.data(), MPI_INT, recv.data(),
                                recvcounts.data(), rdispls.data(), MPI_INT, comm_, &request),
                MPI_SUCCESS);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      ASSERT_EQ(TAPA_Alltoallv(send.data(), sendcounts.data(), sdispls.data(), MPI_INT, recv.data(),
                               recvcounts.data(), rdispls.data(), MPI_INT, comm_),
                MPI_SUCCESS);
    }
    ASSERT_EQ(recv, expected) << "call " << number;
    if (number % 10 == 5) {  // in place: each two neighbours
      const int mate = (rank_ ^ 1) < size_ ? rank_ ^ 1 : rank_;
      std::vector<int> counts(ranks), displs(ranks);
      counts[static_cast<std::size_t>(mate)] = 3;
      std::vector<int> both{element(rank_, mate, number, 0), element(rank_, mate, number, 1),
                            element(rank_, mate, number, 2)};
      ASSERT_EQ(TAPA_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, both.data(), counts.data(),
                               displs.data(), MPI_INT, comm_),
                MPI_SUCCESS);
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(both[static_cast<std::size_t>(i)], element(mate, rank_, number, i));
      std::vector<int> equal(ranks), all(ranks);
      for (int peer = 0; peer < size_; ++peer)
        equal[static_cast<std::size_t>(peer)] = element(rank_, peer, number, 0);
      ASSERT_EQ(TAPA_Alltoall(equal.data(), 1, MPI_INT, all.data(), 1, MPI_INT, comm_), MPI_SUCCESS);
      for (int peer = 0; peer < size_; ++peer)
        ASSERT_EQ(all[static_cast<std::size_t>(peer)], element(peer, rank_, number, 0));
    }
  }
}

/// By pairs a rank waits for those alone from which something comes: the last one is late until the first has
/// made some calls. TEST_PAIRS: calls go so.
TEST_F(SparseTest, SparseCallsWaitForNobodyElse) {
  if (std::getenv("TEST_PAIRS") == nullptr || size_ < 4) GTEST_SKIP() << "calls do not go by pairs";
  ASSERT_EQ(TAPA_Comm_set(comm_, "plan", "memory"), MPI_SUCCESS) << TAPA_Last_error();
  std::vector<int> counts(static_cast<std::size_t>(size_)), displs(counts.size());
  if (rank_ < 2) counts[static_cast<std::size_t>(1 - rank_)] = 1;
  constexpr int first = 32;  // before it calls go through tables
  for (int number = 0; number < first + 10; ++number) {
    if (number == first && rank_ == size_ - 1) MPI_Recv(nullptr, 0, MPI_INT, 0, 0, comm_, MPI_STATUS_IGNORE);
    const int send = element(rank_, 1 - rank_, number, 0);
    int recv = -1;
    ASSERT_EQ(TAPA_Alltoallv(&send, counts.data(), displs.data(), MPI_INT, &recv, counts.data(),
                             displs.data(), MPI_INT, comm_),
              MPI_SUCCESS);
    EXPECT_EQ(recv, rank_ < 2 ? element(1 - rank_, rank_, number, 0) : -1);
    if (number == first + 5 && rank_ == 0) MPI_Send(nullptr, 0, MPI_INT, size_ - 1, 0, comm_);
  }
}

TEST_F(SparseTest, ReceivedOutlivesTheCommunicator) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(comm_, &other);
  const int to = (rank_ + 1) % size_;
  const MPI_Count count = 1;
  const double value = rank_ + 0.5;
  TAPA_Received received = TAPA_RECEIVED_NULL;
  ASSERT_EQ(TAPA_Sparse_exchange(&value, 1, &to, &count, MPI_DOUBLE, other, &received), MPI_SUCCESS);
  MPI_Comm_free(&other);
  const void* data = nullptr;
  ASSERT_EQ(TAPA_Received_get(received, nullptr, nullptr, nullptr, &data), MPI_SUCCESS);
  EXPECT_EQ(*static_cast<const double*>(data), (rank_ + size_ - 1) % size_ + 0.5);
  TAPA_Received_free(&received);
}

TEST_F(SparseTest, RefusesWrongArguments) {
  expect_refused([&] { return send_to({0, size_}, {1, 1}); }, MPI_ERR_RANK, "destinations[1] is ");
  expect_refused([&] { return send_to({-1}, {1}); }, MPI_ERR_RANK, "destinations[0] is -1, expected 0 to ");
  expect_refused(
      [&] {
        return send_to({0, 0}, {1, 2});
      },
      MPI_ERR_RANK, "destinations[1] is 0 as destinations[0], expected each rank once at most");
  expect_refused([&] { return send_to({0}, {-4}); }, MPI_ERR_COUNT,
                 "sendcounts[0] is -4, expected 0 or more");
  expect_refused([&] { return send_to({0}, {1}, MPI_DATATYPE_NULL); }, MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
#ifdef OPEN_MPI
  const std::string why = "not committed";
#else
  const std::string why = "datatype";  // MPICH 5 packs what is not committed, and then the gaps are named
#endif
  expect_refused([&] { return send_to({0}, {1}, gaps); }, MPI_ERR_TYPE, why);
  MPI_Type_commit(&gaps);
  expect_refused([&] { return send_to({0}, {1}, gaps); }, MPI_ERR_TYPE, "without gaps");
  MPI_Type_free(&gaps);
  const auto raw = [&](const void* buffer, int n, const int* to, const MPI_Count* counts,
                       TAPA_Received* out) {
    const int code = TAPA_Sparse_exchange(buffer, n, to, counts, MPI_INT, comm_, out);
    error_ = TAPA_Last_error();
    received_ = TAPA_RECEIVED_NULL;
    return code;
  };
  const int to = 0;
  const MPI_Count one = 1;
  TAPA_Received out = TAPA_RECEIVED_NULL;
  expect_refused([&] { return raw(&to, -1, &to, &one, &out); }, MPI_ERR_COUNT, "ndestinations is -1");
  expect_refused([&] { return raw(&to, 1, nullptr, &one, &out); }, MPI_ERR_ARG, "destinations is null");
  expect_refused([&] { return raw(&to, 1, &to, nullptr, &out); }, MPI_ERR_ARG, "sendcounts is null");
  expect_refused([&] { return raw(nullptr, 1, &to, &one, &out); }, MPI_ERR_BUFFER, "sendbuf is null");
  expect_refused([&] { return raw(MPI_IN_PLACE, 1, &to, &one, &out); }, MPI_ERR_BUFFER, "MPI_IN_PLACE");
  expect_refused([&] { return raw(&to, 1, &to, &one, nullptr); }, MPI_ERR_ARG, "received is null");
  EXPECT_EQ(out, TAPA_RECEIVED_NULL);
}

TEST_F(SparseTest, CountsWrongRanks) {
  if (size_ < 3) GTEST_SKIP() << "needs 3 ranks";
  const int code = rank_ < 2 ? send_to({size_}, {1}) : send_to({0}, {1});
  EXPECT_NE(code, MPI_SUCCESS);
  EXPECT_THAT(error_, HasSubstr(rank_ < 2 ? "destinations[0] is " : "2 ranks made the call"));
}

TEST_F(SparseTest, RefusesPartsOfElements) {
  const int code = send_to({(rank_ + 1) % size_}, {3}, rank_ == size_ - 1 ? MPI_BYTE : MPI_INT);
  const bool cut = size_ > 1 && rank_ == 0;
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  EXPECT_EQ(found, cut ? MPI_ERR_TRUNCATE : MPI_SUCCESS) << error_;
  if (cut) {
    EXPECT_THAT(error_, HasSubstr("has 3 bytes, expected a multiple of datatype's 4"));
  }
}

TEST_F(SparseTest, HandlesThatAreNone) {
  EXPECT_NE(TAPA_Received_get(TAPA_RECEIVED_NULL, nullptr, nullptr, nullptr, nullptr), MPI_SUCCESS);
  EXPECT_THAT(TAPA_Last_error(), HasSubstr("TAPA_RECEIVED_NULL"));
  EXPECT_NE(TAPA_Received_free(nullptr), MPI_SUCCESS);
  TAPA_Received none = TAPA_RECEIVED_NULL;
  EXPECT_NE(TAPA_Received_free(&none), MPI_SUCCESS);
  TAPA_Received out = TAPA_RECEIVED_NULL;
  EXPECT_NE(TAPA_Sparse_exchange(nullptr, 0, nullptr, nullptr, MPI_INT, MPI_COMM_NULL, &out), MPI_SUCCESS);
}

}  // namespace
