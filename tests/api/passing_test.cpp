// Calls of a guest that pass straight to MPI are counted for the communicator that they were made on.
#include "api/passing.hpp"

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

// A program that takes turns with many communicators, and frees a type of its own between its calls.
TEST(Passing, ManyCommunicatorsAreRemembered) {
  constexpr int many = 12;
  std::array<MPI_Comm, many> comms{};
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<int> sent(static_cast<std::size_t>(ranks));
  std::vector<int> received(sent.size());
  for (const MPI_Comm comm : comms) {
    MPI_Datatype own = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(1, MPI_INT, &own);
    MPI_Type_commit(&own);
    TAPA_Alltoall(sent.data(), 1, own, received.data(), 1, own, comm);
    TAPA_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, comm);
    MPI_Type_free(&own);
  }
  int remembered = 0;
  for (const MPI_Comm comm : comms) {
    const auto kind = tapa::kind_of(tapa::Form::uniform, sent.data(), MPI_INT, MPI_INT, comm);
    if (tapa::passes_for(kind, sent.data(), received.data(), 1) != nullptr) ++remembered;
  }
  EXPECT_GE(remembered, many - 4);  // more than four in a row may want the same places
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace
