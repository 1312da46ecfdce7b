// All-to-alls while the process ends: in an atexit handler, in the destructor of a global, after an earlier
// error, on new communicators; MPI_Finalize is called in that destructor. Whatever a library keeps must still
// be there. With argument "late" nothing is exchanged before main() ends. Prints the wrong elements of all
// ranks.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "linked_names.h"

namespace {

bool began = false;

int value(int source, int destination, int i) {
  return (source * 100 + destination) * 1000 + i;
}

/// Blocks of `count` ints, every second one in memory when `spread`.
int exchange(MPI_Comm comm, int count, bool spread, bool nonblocking) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int step = spread ? 2 : 1;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, step * static_cast<MPI_Aint>(sizeof(int)), &type);
  MPI_Type_commit(&type);
  const auto room = static_cast<std::size_t>(size * count * step);
  std::vector<int> send(room);
  std::vector<int> recv(room, -1);
  const auto at = [&](int peer, int i) { return static_cast<std::size_t>((peer * count + i) * step); };
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < count; ++i) send[at(peer, i)] = value(rank, peer, i);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int code = nonblocking ? MPI_Ialltoall(send.data(), count, type, recv.data(), count, type, comm, &request)
                         : MPI_Alltoall(send.data(), count, type, recv.data(), count, type, comm);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  int wrong = code != MPI_SUCCESS ? 1 : 0;
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < count; ++i) wrong += recv[at(peer, i)] != value(peer, rank, i) ? 1 : 0;
  }
  MPI_Type_free(&type);
  return wrong;
}

int ragged(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> sendcounts(n), recvcounts(n), displs(n);
  std::vector<int> send(n * n), recv(n * n, -1);
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    sendcounts[p] = (rank + peer) % size;
    recvcounts[p] = (peer + rank) % size;
    displs[p] = peer * size;
    for (int i = 0; i < sendcounts[p]; ++i) send[p * n + static_cast<std::size_t>(i)] = value(rank, peer, i);
  }
  int wrong = MPI_Alltoallv(send.data(), sendcounts.data(), displs.data(), MPI_INT, recv.data(),
                            recvcounts.data(), displs.data(), MPI_INT, comm) != MPI_SUCCESS
                  ? 1
                  : 0;
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    for (int i = 0; i < recvcounts[p]; ++i)
      wrong += recv[p * n + static_cast<std::size_t>(i)] != value(peer, rank, i) ? 1 : 0;
  }
  return wrong;
}

/// A call that MPI refuses on every rank; its error handler returns.
int refused() {
  int data[2] = {0, 0};
  return MPI_Alltoall(data, -1, MPI_INT, data + 1, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS ? 1 : 0;
}

void calls(const char* when) {
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  int wrong = refused();
  for (MPI_Comm comm : {MPI_COMM_WORLD, fresh, MPI_COMM_WORLD, MPI_COMM_SELF}) {
    for (int count : {1, 3, 5000}) wrong += exchange(comm, count, false, false);
    wrong += exchange(comm, 7, true, false) + exchange(comm, 9, false, true) + ragged(comm);
  }
  MPI_Comm_free(&fresh);
  wrong += refused();
  int all = 0;
  int rank = 0;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%s: %d wrong\n", when, all);
  if (wrong != 0) std::abort();
}

void at_exit() {
  calls("in an atexit handler");
}

struct AtEnd {
  AtEnd() = default;
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() {
    if (!began) return;
    calls("in a destructor");
    MPI_Finalize();
  }
};
const AtEnd at_end;

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  began = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::atexit(at_exit);
  if (argc < 2 || std::strcmp(argv[1], "late") != 0) calls("in main");
  return 0;
}
