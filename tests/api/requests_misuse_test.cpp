// Requests that are wrong, and the errors that say so.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#include "requests.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

/// Runs a call that must fail and compares its error.
void expect_error(int code, int error_class, const std::string& message) {
  int actual = MPI_SUCCESS;
  MPI_Error_class(code, &actual);
  EXPECT_EQ(actual, error_class) << TAPA_Last_error();
  EXPECT_EQ(std::string(TAPA_Last_error()), message);
}

TEST(RequestsMisuse, ExactErrors) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  Buffers b(MPI_COMM_WORLD, false);
  b.fill(0);
  MPI_Request request = MPI_REQUEST_NULL;
  expect_error(TAPA_Ialltoall(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_NULL, &request),
               MPI_ERR_COMM, "TAPA_Ialltoall: comm is MPI_COMM_NULL, expected a communicator");
  expect_error(TAPA_Ialltoall(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_WORLD, nullptr),
               MPI_ERR_ARG, "TAPA_Ialltoall: request is null, expected the address of an MPI_Request");
  expect_error(TAPA_Alltoall_init(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_NULL,
                                  MPI_INFO_NULL, &request),
               MPI_ERR_COMM, "TAPA_Alltoall_init: comm is MPI_COMM_NULL, expected a communicator");
  expect_error(TAPA_Alltoall_init(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_WORLD,
                                  MPI_INFO_NULL, nullptr),
               MPI_ERR_ARG, "TAPA_Alltoall_init: request is null, expected the address of an MPI_Request");
  expect_error(TAPA_Start(nullptr), MPI_ERR_ARG,
               "TAPA_Start: request is null, expected the address of an MPI_Request");
  expect_error(
      TAPA_Start(&request), MPI_ERR_REQUEST,
      "TAPA_Start: request is MPI_REQUEST_NULL, expected a request of TAPA_Alltoall_init or its kin");
  expect_error(TAPA_Request_free(nullptr), MPI_ERR_ARG,
               "TAPA_Request_free: request is null, expected the address of an MPI_Request");
  expect_error(
      TAPA_Request_free(&request), MPI_ERR_REQUEST,
      "TAPA_Request_free: request is MPI_REQUEST_NULL, expected a request of TAPA_Alltoall_init or its kin");
  expect_error(TAPA_Startall(-1, &request), MPI_ERR_COUNT, "TAPA_Startall: count is -1, expected 0 or more");
  expect_error(TAPA_Startall(1, nullptr), MPI_ERR_ARG,
               "TAPA_Startall: requests is null, expected an array of requests");
  EXPECT_EQ(TAPA_Startall(0, nullptr), MPI_SUCCESS);

  ASSERT_EQ(TAPA_Alltoall_init(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_WORLD,
                               MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  MPI_Request two[2] = {request, MPI_REQUEST_NULL};
  expect_error(TAPA_Startall(2, two), MPI_ERR_REQUEST,
               "TAPA_Startall: requests[1] is MPI_REQUEST_NULL, expected a request of TAPA_Alltoall_init or "
               "its kin");
  ASSERT_EQ(TAPA_Start(&request), MPI_SUCCESS);  // none was started
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(b.recv, b.expected(0));
  EXPECT_EQ(TAPA_Request_free(&request), MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

TEST(RequestsMisuse, ForeignAndActive) {
  if (are_mpis()) GTEST_SKIP() << "MPI tells these errors";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Buffers b(MPI_COMM_WORLD, false);
  b.fill(0);
  MPI_Request request = MPI_REQUEST_NULL;
  char byte = 0;
  MPI_Request foreign = MPI_REQUEST_NULL;
  MPI_Send_init(&byte, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, &foreign);
  expect_error(TAPA_Start(&foreign), MPI_ERR_REQUEST,
               "TAPA_Start: request is not a request of TAPA_Alltoall_init or its kin");
  expect_error(TAPA_Request_free(&foreign), MPI_ERR_REQUEST,
               "TAPA_Request_free: request is not a request of TAPA_Alltoall_init or its kin");

  ASSERT_EQ(TAPA_Alltoall_init(b.send.data(), 5, MPI_INT, b.recv.data(), 5, MPI_INT, MPI_COMM_WORLD,
                               MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  MPI_Request two[2] = {request, foreign};
  expect_error(TAPA_Startall(2, two), MPI_ERR_REQUEST,
               "TAPA_Startall: requests[1] is not a request of TAPA_Alltoall_init or its kin");
  MPI_Request_free(&foreign);
  if (rank == 0 && size > 1) {  // rank 0 starts first, so that its run cannot end
    ASSERT_EQ(TAPA_Start(&request), MPI_SUCCESS);
    expect_error(
        TAPA_Start(&request), MPI_ERR_REQUEST,
        "TAPA_Start: request is active, expected a request that was completed by MPI_Wait or MPI_Test");
    expect_error(TAPA_Request_free(&request), MPI_ERR_REQUEST,
                 "TAPA_Request_free: request is active, expected a request that was completed by MPI_Wait or "
                 "MPI_Test");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0 || size == 1) {
    ASSERT_EQ(TAPA_Start(&request), MPI_SUCCESS);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(b.recv, b.expected(0));
  EXPECT_EQ(TAPA_Request_free(&request), MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
