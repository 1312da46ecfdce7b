// Calls of a guest that pass straight to MPI are counted for the communicator that they were made on.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <vector>

#include "comm/comm_state.hpp"
#include "comm/guest.hpp"
#include "tapa/tapa.h"

namespace {

constexpr int kCommunicators = 4;

TEST(Passing, CommunicatorsInTurnAreAllMeasured) {
  tapa::become_guest(false);
  tapa::note_setup_seconds(1, 1e6);  // so that it never pays
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::array<MPI_Comm, kCommunicators> comms{};
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  constexpr int words = 2000;
  std::vector<int> sent(static_cast<std::size_t>(words * ranks));
  std::vector<int> received(sent.size());
  std::array<double, kCommunicators> shortest{};
  shortest.fill(1);
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < comms.size(); ++i) {
      const double began = MPI_Wtime();
      TAPA_Alltoall(sent.data(), words, MPI_INT, received.data(), words, MPI_INT, comms[i]);
      shortest[i] = std::min(shortest[i], MPI_Wtime() - began);
    }
  }
  for (std::size_t i = 0; i < comms.size(); ++i) {
    const auto state = tapa::CommState::find(comms[i]);
    ASSERT_NE(state, nullptr);
    EXPECT_FALSE(state->ready());
    if (rank == 0) {
      EXPECT_GT(state->newcomer_seconds(), 0.5 * rounds * shortest[i]);
    }
    MPI_Comm_free(&comms[i]);
  }
}

}  // namespace
