// TAPA_Comm_set while calls are under way: these keep to the options that they found, on all ranks.
#include <mpi.h>
#include <unistd.h>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

constexpr int kInts = 50;

void set(MPI_Comm comm, const char* key, const char* value) {
  expect_done(TAPA_Comm_set(comm, key, value), std::string("option ") + key);
}

/// Lets MPI move for a while.
void look_around(MPI_Comm comm) {
  const double end = MPI_Wtime() + 0.05;
  for (int flag = 0; MPI_Wtime() < end;)
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
}

struct Buffers {
  explicit Buffers(MPI_Comm comm) : rank(rank_of(comm)), size(size_of(comm)) {
    for (int p = 0; p < size; ++p) {
      counts.push_back(kInts);
      displs.push_back(p * kInts);
      for (int i = 0; i < kInts; ++i) send.push_back(value(rank, p, i));
    }
    recv.assign(send.size(), kGuard);
  }
  void check(const char* what) const {
    for (int p = 0; p < size; ++p) {
      for (int i = 0; i < kInts; ++i) {
        if (recv[static_cast<std::size_t>(p * kInts + i)] != value(p, rank, i))
          return fail(std::string(what) + ": wrong data from rank " + std::to_string(p));
      }
    }
  }
  int rank, size;
  std::vector<int> counts, displs;
  std::vector<std::int32_t> send, recv;
};

/// Every second rank comes late to the call, but has it under way before it sets the option.
void plan_while_counts_are_checked(MPI_Comm comm, const char* before, const char* after) {
  Buffers b(comm);
  set(comm, "check", "counts");
  set(comm, "plan", before);
  if (b.rank % 2 == 0) usleep(50000);
  MPI_Request request = MPI_REQUEST_NULL;
  expect_done(TAPA_Ialltoallv(b.send.data(), b.counts.data(), b.displs.data(), MPI_INT, b.recv.data(),
                              b.counts.data(), b.displs.data(), MPI_INT, comm, &request));
  if (b.rank % 2 == 0) look_around(comm);
  set(comm, "plan", after);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  b.check("nonblocking");
}

/// A persistent request under way keeps to the way of its messages.
void way_of_messages_of_a_started_request(MPI_Comm comm) {
  Buffers b(comm);
  MPI_Request request = MPI_REQUEST_NULL;
  set(comm, "plan", "linear");
  expect_done(TAPA_Alltoall_init(b.send.data(), kInts, MPI_INT, b.recv.data(), kInts, MPI_INT, comm,
                                 MPI_INFO_NULL, &request));
  for (const char* limit : {"0", "4096"}) {
    TAPA_Start(&request);
    set(comm, "shm-limit", limit);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    b.check("persistent");
    b.recv.assign(b.recv.size(), kGuard);
  }
  TAPA_Request_free(&request);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  plan_while_counts_are_checked(MPI_COMM_WORLD, "linear", "bruck");
  plan_while_counts_are_checked(MPI_COMM_WORLD, "bruck", "linear");
  way_of_messages_of_a_started_request(MPI_COMM_WORLD);
  return finish("settings_test");
}
