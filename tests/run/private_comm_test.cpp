// A communicator of the library's own whose making fails leaves the program's error handler alone: MPI has
// only so many of them.
#include "run/private_comm.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

bool none_left = false;
int calls = 0;

void count_call(MPI_Comm*, int*, ...) {
  ++calls;
}

/// A failure, as MPI tells it.
int fail(MPI_Comm comm) {
  PMPI_Comm_call_errhandler(comm, MPI_ERR_INTERN);
  return MPI_ERR_INTERN;
}

/// The ranks of the world but the first, in reverse.
MPI_Comm reversed() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, -rank, &comm);
  return comm;
}

class PrivateComm : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tapa::make_private_comm(MPI_COMM_WORLD, &parent_), MPI_SUCCESS);
    program_ = reversed();
    MPI_Comm_create_errhandler(count_call, &handler_);
    if (program_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(program_, handler_);
  }
  void TearDown() override {
    MPI_Errhandler_free(&handler_);
    if (program_ != MPI_COMM_NULL) MPI_Comm_free(&program_);
    MPI_Comm_free(&parent_);
  }
  MPI_Comm parent_ = MPI_COMM_NULL;
  MPI_Comm program_ = MPI_COMM_NULL;  // rank 0 has none
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

TEST_F(PrivateComm, HasTheRanksInTheirOrder) {
  if (program_ == MPI_COMM_NULL) return;
  MPI_Comm made = MPI_COMM_NULL;
  ASSERT_EQ(tapa::make_private_comm(program_, parent_, 7, &made), MPI_SUCCESS);
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(program_, made, &result);
  EXPECT_EQ(result, MPI_CONGRUENT);
  MPI_Comm_free(&made);
}

TEST_F(PrivateComm, CallsNoHandlerWhereMpiHasNoneLeft) {
  none_left = true;
  MPI_Comm made = MPI_COMM_NULL;
  if (program_ != MPI_COMM_NULL) {
    EXPECT_EQ(tapa::make_private_comm(program_, parent_, 7, &made), MPI_ERR_INTERN);
  }
  EXPECT_EQ(calls, 0);
  none_left = false;
}

}  // namespace

// MPI's, before the library's calls.
extern "C" int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  return none_left ? fail(comm) : MPI_Comm_create_group(comm, group, tag, made);
}
extern "C" int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  return none_left ? fail(comm) : MPI_Comm_create(comm, group, made);
}
