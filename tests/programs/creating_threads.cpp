// Communicators that two threads of a process need at the same time, where one's first persistent all-to-all
// is the rank's alone. Open MPI makes the communicators of all threads in the order of those that they are
// made from; whatever a library makes inside these calls must not close a circle with it. Ranks sleep, so
// that each is in its call when the next comes. Argument: behind how many communicators that the library
// makes of rank 1 alone the other thread's call comes. Prints the wrong elements of all ranks.
#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "persistent.h"

namespace {

std::atomic<bool> is_watched{false};
std::atomic<int> made_alone{0};

void sleep_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// At most half a second longer than rank 1 sleeps: there may be no library that makes any.
void wait_until_made(int alone) {
  for (int i = 0; i < 900 && made_alone < alone; ++i) sleep_for(1);
}

int wrong_of_alltoall(MPI_Comm comm, int rank, int size) {
  std::vector<int> send(static_cast<std::size_t>(size), rank);
  std::vector<int> recv(static_cast<std::size_t>(size), -1);
  MPI_Alltoall(send.data(), 1, MPI_INT, recv.data(), 1, MPI_INT, comm);
  int wrong = 0;
  for (int r = 0; r < size; ++r) wrong += recv[static_cast<std::size_t>(r)] != r;
  return wrong;
}

int wrong_of_own() {
  int from = 7;
  int to = 0;
#ifdef Alltoall_init
  MPI_Request request = MPI_REQUEST_NULL;
  Alltoall_init(&from, 1, MPI_INT, &to, 1, MPI_INT, MPI_COMM_SELF, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
#else
  MPI_Alltoall(&from, 1, MPI_INT, &to, 1, MPI_INT, MPI_COMM_SELF);
#endif
  return to != 7;
}

// All ranks but the first: rank 2 begins, and rank 1 comes when it has had an all-to-all of its own.
int wrong_of_creation(int rank) {
  if (rank == 0) return 0;
  if (rank == 1) sleep_for(400);
  is_watched = true;
  const int wrong = rank == 1 ? wrong_of_own() : 0;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int first = 0;
  MPI_Group_excl(world, 1, &first, &some);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 1, &made);
  MPI_Group_free(&some);
  MPI_Group_free(&world);
  MPI_Comm_free(&made);
  return wrong;
}

}  // namespace

// Time for the other thread behind each one that a library makes of this rank alone.
extern "C" int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  using Create = int (*)(MPI_Comm, MPI_Group, MPI_Comm*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "PMPI_Comm_create"));
  const int code = create(comm, group, made);
  if (comm == MPI_COMM_SELF && is_watched) {
    ++made_alone;
    sleep_for(100);
  }
  return code;
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = 0;
  if (provided == MPI_THREAD_MULTIPLE) {
    MPI_Comm both = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &both);
    int others = 0;
    std::thread other([&] {
      if (rank == 2) sleep_for(200);
      if (rank == 1) wait_until_made(argc > 1 ? std::stoi(argv[1]) : 1);
      others = wrong_of_alltoall(both, rank, size);
    });
    wrong = wrong_of_creation(rank);
    other.join();
    wrong += others;
    MPI_Comm_free(&both);
  }
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("wrong elements %d\n", all);
  MPI_Finalize();
  return all != 0;
}
