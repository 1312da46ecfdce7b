#include "comm/shared_words.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace tapa {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kHasTime = 0x80;  // the bit by which a rank says that its time is not over
constexpr std::chrono::seconds kTime{10};

/// Each rank knows what all ranks say, draws who is late, and checks what it hears. Ends when a rank's time
/// is over, as others may keep the cores for a whole time slice in each call.
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
  const Clock::time_point end = Clock::now() + kTime;
  std::uint64_t heard = kHasTime;
  for (int call = 0; call < calls && (heard & kHasTime) != 0; ++call) {
    std::uint64_t all = SharedWords::kMost & ~kHasTime;
    std::uint64_t mine = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::uint64_t said = (random() | random()) & SharedWords::kMost & ~kHasTime;
      all &= said;
      if (r == rank) mine = said;
    }
    if (own() % 64 == 0) sched_yield();
    if (Clock::now() < end) mine |= kHasTime;
    heard = words.common_bits(mine, Waiter(comm, nullptr, policy));
    ASSERT_EQ(heard & ~kHasTime, all) << "call " << call;
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
