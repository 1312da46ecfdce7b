// Ranks of MPI: what ranks.cpp does with processes of its own.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "ranks.hpp"
#include "tapa/device_mpi.h"

namespace tapa::bench {

namespace {

class MpiRanks final : public Ranks {
 public:
  using Ranks::Ranks;
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void allgather(const void* mine, void* all, std::size_t bytes) override {
    const int count = static_cast<int>(bytes);
    MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
  }
  int create(const TAPA_Device_options& options, TAPA_Device_comm* comm) override {
    return TAPA_Device_comm_create_mpi(MPI_COMM_WORLD, &options, comm);
  }
  void leave(double seconds) override { usleep(static_cast<useconds_t>(seconds * 1e6)); }
};

/// MPI, from the first use to the end of the program.
class Session {
 public:
  Session() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  }
  ~Session() { MPI_Finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

}  // namespace

int Ranks::allgather_for_tapa(void* context, const void* mine, void* all, std::size_t bytes) {
  static_cast<Ranks*>(context)->allgather(mine, all, bytes);
  return 0;
}

int run_ranks(int, const std::function<int(Ranks&)>& body) {
  static const Session session;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MpiRanks ranks(rank, size);
  int failed = 1;
  try {
    failed = body(ranks) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);  // the others may wait for this rank
  }
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return failed;
}

}  // namespace tapa::bench
