#include "comm/shared_words.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tapa {
namespace {

/// Each rank knows what all ranks say, draws who is late, and checks what it hears.
void run_calls(WaitPolicy policy, int calls) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  SharedWords words;
  ASSERT_TRUE(words.open(comm));
  std::mt19937 random(7);
  std::mt19937 own(static_cast<unsigned>(rank));
  for (int call = 0; call < calls; ++call) {
    std::uint64_t all = SharedWords::kMost;
    std::uint64_t mine = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::uint64_t said = (random() | random()) & SharedWords::kMost;
      all &= said;
      if (r == rank) mine = said;
    }
    if (own() % 64 == 0) sched_yield();
    ASSERT_EQ(words.common_bits(mine, Waiter(comm, nullptr, policy)), all) << "call " << call;
  }
  words.close();
  MPI_Comm_free(&comm);
}

TEST(SharedWords, AllRanksHearWhatAllSay) {
  run_calls(WaitPolicy::yield, 20000);
  run_calls(WaitPolicy::spin, 2000);
}

// Memory of one that was closed is not mistaken for that of the next.
TEST(SharedWords, ComeAndGo) {
  for (int i = 0; i < 20; ++i) run_calls(WaitPolicy::yield, 3);
}

// Ranks come to the end of their communicators in orders of their own.
TEST(SharedWords, CloseAlone) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  SharedWords words[2];
  for (SharedWords& each : words) ASSERT_TRUE(each.open(MPI_COMM_WORLD));
  words[rank % 2].close();
  words[1 - rank % 2].close();
}

}  // namespace
}  // namespace tapa
