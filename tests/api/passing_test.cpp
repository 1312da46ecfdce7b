// Calls of a guest that pass straight to MPI are counted for the communicator that they were made on.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <vector>

#include "comm/comm_state.hpp"
#include "comm/guest.hpp"
#include "tapa/tapa.h"

namespace {

constexpr int kCommunicators = 4;

TEST(Passing, CommunicatorsInTurnAreAllMeasured) {
  tapa::become_guest(false);
  tapa::note_setup_seconds(1e6);  // so that it never pays
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::array<MPI_Comm, kCommunicators> comms{};
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<int> sent(static_cast<std::size_t>(ranks));
  std::vector<int> received(sent.size());
  double seconds = 0;
  for (int round = 0; round < 1000; ++round) {
    const double began = MPI_Wtime();
    for (const MPI_Comm comm : comms) TAPA_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, comm);
    seconds += MPI_Wtime() - began;
  }
  for (MPI_Comm& comm : comms) {
    const auto state = tapa::CommState::find(comm);
    ASSERT_NE(state, nullptr);
    EXPECT_FALSE(state->ready());
    if (rank == 0) {
      EXPECT_GT(state->newcomer_seconds(), 0.3 * seconds / kCommunicators);
    }
    MPI_Comm_free(&comm);
  }
}

}  // namespace
