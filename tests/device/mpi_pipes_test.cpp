// Pipes between nodes with MPI's messages, over memory of the host: every rank sends to all others, random
// lengths, several rounds; then a rank that does not come.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/mpi_messenger.hpp"
#include "pipe_rounds.hpp"

namespace {

using tapa::device::HostPipes;
using tapa::device::MpiMessenger;
using tapa::device::wrong_in_round;

/// Many of them short.
std::size_t bytes_of(std::minstd_rand& random) {
  const auto kind = random() % 4;
  return kind == 0 ? 0 : kind == 1 ? random() % 100 : random() % 1000000;
}

/// The last rank does not come; the others learn its name.
bool absence_is_named(int rank, int ranks) {
  HostPipes pipes(rank, ranks, 1000, {1, 1, 0, 300'000'000}, MpiMessenger::of(MPI_COMM_WORLD));
  bool right = true;
  if (rank != ranks - 1) {
    std::vector<std::byte> memory(5000);
    std::vector<HostPipes::Part> none(static_cast<std::size_t>(ranks), {nullptr, 0});
    std::vector<HostPipes::Part> in = none;
    in.back() = {memory.data(), memory.size()};
    pipes.exchange(none, in, 1);
    right = pipes.missing(ranks - 1) != 0;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (const std::string why = tapa::device::why_no_messages(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    MPI_Finalize();
    return 77;
  }
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  unsigned long long wrong = 0;
  {
    HostPipes pipes(rank, ranks, std::size_t{64} << 10, {2, 1, 0, 20'000'000'000},
                    MpiMessenger::of(MPI_COMM_WORLD));
    for (unsigned round = 0; round < 12; ++round) {
      wrong += wrong_in_round(pipes, static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks), round,
                              bytes_of, round);
    }
    if (!pipes.proxy().failure().empty()) {
      std::fprintf(stderr, "rank %d: %s\n", rank, pipes.proxy().failure().c_str());
      ++wrong;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (!absence_is_named(rank, ranks)) ++wrong;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && wrong != 0) std::fprintf(stderr, "%llu wrong\n", wrong);
  // Pipes that were given up, after an error say, still have their thread when the program ends MPI.
  static const auto* const given_up =
      new HostPipes(rank, ranks, 1000, {1, 1, 0, 0}, MpiMessenger::of(MPI_COMM_WORLD));
  // Who ends MPI first has sent all that others wait for.
  static auto* const last =
      new HostPipes(rank, ranks, 1000, {1, 1, 0, 5'000'000'000}, MpiMessenger::of(MPI_COMM_WORLD));
  std::vector<std::byte> memory(1000 * 64, std::byte{5});
  const std::vector<HostPipes::Part> none(static_cast<std::size_t>(ranks), {nullptr, 0});
  std::vector<HostPipes::Part> part = none;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    part[1] = {memory.data(), memory.size()};
    last->exchange(part, none, 1);
  } else if (rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    part[0] = {memory.data(), memory.size()};
    last->exchange(none, part, 1);
    if (last->missing(0) != 0) {
      ++wrong;
      std::fprintf(stderr, "rank 0 ended MPI and did not send\n");
    }
  }
  MPI_Finalize();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!given_up->proxy().failure().empty()) ++wrong;
  return wrong == 0 ? 0 : 1;
}
