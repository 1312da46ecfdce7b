// Two ranks: what is left unfinished does not disturb what comes after it.
#include "run/small_exchange.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <vector>

namespace tapa {
namespace {

using Number = std::array<std::size_t, 1>;

constexpr int kGivenUp = 1;
constexpr int kUsed = 2;
constexpr int kAfter = 3;

void send(std::size_t number, int tag) {
  MPI_Send(&number, sizeof number, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
}

std::size_t receive(int from, int tag) {
  std::size_t number = 0;
  MPI_Recv(&number, sizeof number, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return number;
}

TEST(SmallExchange, NumbersOfOneThatWasGivenUpComeLateAndChangeNothing) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) {
    EXPECT_EQ(receive(0, kGivenUp), 10U);
    EXPECT_EQ(receive(0, kUsed), 20U);
    send(222, kUsed);
    send(111, kGivenUp);
    send(0, kAfter);
  } else if (rank == 0) {
    constexpr std::array in_world{0, 1};
    const MessageSpace space{MPI_COMM_WORLD, in_world, {}};
    SmallExchange exchange;
    exchange.start(space, kGivenUp, {1}, 1, Number{10}, true);
    EXPECT_TRUE(exchange.pending());
    exchange.start(space, kUsed, {1}, 1, Number{20}, true);
    while (!exchange.test()) {
    }
    EXPECT_FALSE(exchange.pending());
    receive(1, kAfter);  // messages arrive in order
    EXPECT_EQ(exchange.from(0)[0], 222U);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Members are ranks of a communicator whose order is not the world's.
TEST(SmallExchange, MembersAreFoundByTheirRanksInTheWorld) {
  constexpr std::array in_world{1, 0};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int own = 1 - rank;
  SmallExchange exchange;
  const MessageSpace space{MPI_COMM_WORLD, in_world, {}};
  exchange.start(space, kAfter + 1, {1 - own}, 1, Number{static_cast<std::size_t>(own) + 7}, true);
  while (!exchange.test()) {
  }
  EXPECT_EQ(exchange.members(), std::vector{1 - own});
  EXPECT_EQ(exchange.from(0)[0], static_cast<std::size_t>(1 - own) + 7);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace tapa
