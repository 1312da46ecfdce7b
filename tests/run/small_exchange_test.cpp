// Two ranks: what is left unfinished does not disturb what comes after it.
#include "run/small_exchange.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>

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
    SmallExchange exchange;
    exchange.start(MPI_COMM_WORLD, kGivenUp, {1}, 1, Number{10}, true);
    EXPECT_TRUE(exchange.pending());
    exchange.start(MPI_COMM_WORLD, kUsed, {1}, 1, Number{20}, true);
    while (!exchange.test()) {
    }
    EXPECT_FALSE(exchange.pending());
    receive(1, kAfter);  // messages arrive in order
    EXPECT_EQ(exchange.from(0)[0], 222U);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace tapa
