// Nonblocking calls, with every plan of TEST_PLANS (separated by '/').
#include "requests.hpp"

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

std::vector<std::string> plans() {
  const char* text = std::getenv("TEST_PLANS");
  std::istringstream in(text == nullptr ? "auto" : text);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, '/');) names.push_back(name);
  return names;
}

TEST_P(RequestsTest, NonblockingUniform) {
  Buffers b(comm_, false);
  for (int run = 0; run < 20; ++run) {
    b.fill(run);
    MPI_Request request = MPI_REQUEST_NULL;
    if (run % 2 == 0) {
      ialltoall(b, 5, &request);
    } else {
      ASSERT_EQ(TAPA_Ialltoall_c(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, comm_, &request),
                MPI_SUCCESS);
    }
    int flag = 0;
    if (run % 3 == 0) {
      while (flag == 0) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    }
    ASSERT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(b.recv, b.expected(run)) << "run " << run;
  }
}

TEST_P(RequestsTest, NonblockingVandW) {
  Buffers b(comm_, true);
  const auto sbytes = Buffers::bytes(b.sdispls);
  const auto rbytes = Buffers::bytes(b.rdispls);
  const std::vector<MPI_Datatype> types(static_cast<std::size_t>(size_), MPI_INT);
  const auto wide_s = Buffers::wide<MPI_Count>(b.scounts);
  const auto wide_r = Buffers::wide<MPI_Count>(b.rcounts);
  const auto far_s = Buffers::wide<MPI_Aint>(b.sdispls);
  const auto far_r = Buffers::wide<MPI_Aint>(b.rdispls);
  const auto far_sbytes = Buffers::wide<MPI_Aint>(sbytes);
  const auto far_rbytes = Buffers::wide<MPI_Aint>(rbytes);
  for (int run = 0; run < 16; ++run) {
    b.fill(run);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    switch (has_large_arrays() ? run % 4 : run % 2 * 2) {
      case 0:
        ialltoallv(b, comm_, &request);
        break;
      case 1:
        code = TAPA_Ialltoallv_c(b.send.data(), wide_s.data(), far_s.data(), MPI_INT, b.recv.data(),
                                 wide_r.data(), far_r.data(), MPI_INT, comm_, &request);
        break;
      case 2:
        code = TAPA_Ialltoallw(b.send.data(), b.scounts.data(), sbytes.data(), types.data(), b.recv.data(),
                               b.rcounts.data(), rbytes.data(), types.data(), comm_, &request);
        break;
      default:
        code = TAPA_Ialltoallw_c(b.send.data(), wide_s.data(), far_sbytes.data(), types.data(), b.recv.data(),
                                 wide_r.data(), far_rbytes.data(), types.data(), comm_, &request);
    }
    ASSERT_EQ(code, MPI_SUCCESS) << TAPA_Last_error();
    ASSERT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(b.recv, b.expected(run)) << "run " << run;
  }
}

TEST_P(RequestsTest, InPlace) {
  Buffers b(comm_, false);
  for (int run = 0; run < 5; ++run) {
    b.fill(run);
    std::copy(b.send.begin(), b.send.end(), b.recv.begin());
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_EQ(TAPA_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b.recv.data(), 5, MPI_INT, comm_, &request),
              MPI_SUCCESS)
        << TAPA_Last_error();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ASSERT_EQ(b.recv, b.expected(run));
  }
}

// Sends every second int; the type is freed before the wait, which MPI allows.
TEST_P(RequestsTest, DerivedTypeFreedEarly) {
  Buffers b(comm_, false);
  MPI_Datatype spread = MPI_DATATYPE_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(5, 1, 2, MPI_INT, &spread);
  MPI_Type_create_resized(spread, 0, 10 * static_cast<MPI_Aint>(sizeof(int)), &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&spread);
  b.fill(3);
  std::vector<int> wide_send(b.send.size() * 2, kGuard);
  for (std::size_t i = 0; i < b.send.size(); ++i) wide_send[2 * i] = b.send[i];
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_EQ(TAPA_Ialltoall(wide_send.data(), 1, type, b.recv.data(), 5, MPI_INT, comm_, &request),
            MPI_SUCCESS)
      << TAPA_Last_error();
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(b.recv, b.expected(3));
}

TEST_P(RequestsTest, ZeroBytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_EQ(TAPA_Ialltoall(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, comm_, &request), MPI_SUCCESS);
  EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  ASSERT_EQ(TAPA_Alltoall_init(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, comm_, MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(MPI_Start(&request), MPI_SUCCESS);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  EXPECT_EQ(TAPA_Request_free(&request), MPI_SUCCESS);
}

TEST_P(RequestsTest, ManyOutstandingMixedWithBlocking) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);  // its first call is nonblocking
  std::vector<Buffers> uniform(4, Buffers(comm_, false));
  std::vector<Buffers> v(4, Buffers(comm_, true));
  Buffers blocking(comm_, false);
  for (int round = 0; round < 5; ++round) {
    std::vector<MPI_Request> requests;
    for (std::size_t i = 0; i < 4; ++i) {
      const int salt = round * 100 + static_cast<int>(i);
      uniform[i].fill(salt);
      v[i].fill(salt + 50);
      requests.push_back(MPI_REQUEST_NULL);
      ialltoall(uniform[i], 5, &requests.back());
      requests.push_back(MPI_REQUEST_NULL);
      ialltoallv(v[i], i % 2 == 0 ? comm_ : other, &requests.back());
      if (i == 1) {
        blocking.fill(round);
        ASSERT_EQ(TAPA_Alltoall(blocking.send.data(), 5, MPI_INT, blocking.recv.data(), 5, MPI_INT, comm_),
                  MPI_SUCCESS);
        ASSERT_EQ(blocking.recv, blocking.expected(round));
      }
    }
    if (round % 2 == 0) std::reverse(requests.begin(), requests.end());
    ASSERT_EQ(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
              MPI_SUCCESS);
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(uniform[i].recv, uniform[i].expected(round * 100 + static_cast<int>(i)));
      ASSERT_EQ(v[i].recv, v[i].expected(round * 100 + static_cast<int>(i) + 50));
    }
  }
  MPI_Comm_free(&other);
}

// A rank that is in another blocking all-to-all, or in a receive, still forwards for an earlier nonblocking
// one.
TEST_P(RequestsTest, ProgressesInsideOtherCalls) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  Buffers b(comm_, false);
  Buffers c(comm_, false);
  for (int run = 0; run < 5; ++run) {
    b.fill(run);
    c.fill(run + 1);
    MPI_Request request = MPI_REQUEST_NULL;
    ialltoall(b, 5, &request);
    const bool early = rank_ % 2 == 0;
    if (early) MPI_Wait(&request, MPI_STATUS_IGNORE);
    ASSERT_EQ(TAPA_Alltoall(c.send.data(), 5, MPI_INT, c.recv.data(), 5, MPI_INT, other), MPI_SUCCESS);
    if (!early) MPI_Wait(&request, MPI_STATUS_IGNORE);
    ASSERT_EQ(b.recv, b.expected(run));
    ASSERT_EQ(c.recv, c.expected(run + 1));

    b.fill(run + 2);
    ialltoall(b, 5, &request);
    char token = 0;
    if (rank_ == 0) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      for (int peer = 1; peer < size_; ++peer) MPI_Send(&token, 1, MPI_CHAR, peer, 5, comm_);
    } else {
      MPI_Recv(&token, 1, MPI_CHAR, 0, 5, comm_, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    ASSERT_EQ(b.recv, b.expected(run + 2));
  }
  MPI_Comm_free(&other);
}

TEST_P(RequestsTest, CommunicatorFreedWhileUnderWay) {
  Buffers b(comm_, true);
  b.fill(1);
  MPI_Request request = MPI_REQUEST_NULL;
  ialltoallv(b, comm_, &request);
  MPI_Comm_free(&comm_);
  ASSERT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(b.recv, b.expected(1));
}

// Before the set-up the call is MPI's, with arrays that the library makes and keeps.
TEST(RequestsHanded, LargeCountsOnACommunicatorFreedEarly) {
  if (!has_large_arrays()) GTEST_SKIP() << "this MPI has no large counts";
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, tapa::errors_return());
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  Buffers b(comm, true, 5);
  const auto scounts = Buffers::wide<MPI_Count>(b.scounts);
  const auto rcounts = Buffers::wide<MPI_Count>(b.rcounts);
  const auto sdispls = Buffers::wide<MPI_Aint>(b.sdispls);
  const auto rdispls = Buffers::wide<MPI_Aint>(b.rdispls);
  b.fill(3);
  if (rank == 0) usleep(50000);  // the others test the request many times
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_EQ(TAPA_Ialltoallv_c(b.send.data(), scounts.data(), sdispls.data(), MPI_INT, b.recv.data(),
                              rcounts.data(), rdispls.data(), MPI_INT, comm, &request),
            MPI_SUCCESS)
      << TAPA_Last_error();
  MPI_Comm_free(&comm);
  ASSERT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(b.recv, b.expected(3));
}

INSTANTIATE_TEST_SUITE_P(Plans, RequestsTest, testing::ValuesIn(plans()),
                         [](const auto& info) { return "plan" + std::to_string(info.index); });

}  // namespace
