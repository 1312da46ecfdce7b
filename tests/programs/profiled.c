/* Calls that a profiling tool counts: all-to-alls of several sizes and communicators, and others. Prints how
 * many elements were wrong. Knows nothing of libtapa. */
#include <mpi.h>
#include <stdio.h>

enum { kMostRanks = 16, kMost = 20000, kRounds = 12 };

static int value(int source, int destination, int i) {
  return (source * 31 + destination) * 1009 + i;
}

static int check(int* recv, int n, int rank, int ranks) {
  int wrong = 0;
  for (int p = 0; p < ranks; ++p)
    for (int i = 0; i < n; ++i) {
      wrong += recv[p * n + i] != value(p, rank, i);
      recv[p * n + i] = -1;
    }
  return wrong;
}

static int exchange(MPI_Comm comm, int* send, int* recv, int n) {
  int rank, ranks, wrong = 0;
  int counts[kMostRanks], displs[kMostRanks];
  MPI_Request request;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (ranks > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int p = 0; p < ranks; ++p) {
    counts[p] = n;
    displs[p] = p * n;
    for (int i = 0; i < n; ++i) send[p * n + i] = value(rank, p, i);
  }
  for (int round = 0; round < kRounds; ++round) {
    MPI_Alltoall(send, n, MPI_INT, recv, n, MPI_INT, comm);
    wrong += check(recv, n, rank, ranks);
    MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, comm);
    wrong += check(recv, n, rank, ranks);
    MPI_Ialltoall(send, n, MPI_INT, recv, n, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wrong += check(recv, n, rank, ranks);
  }
  return wrong;
}

/* What a rank of a ring sends down comes from above. */
static int exchange_in_ring(MPI_Comm comm, int rank, int ranks) {
  const int periodic = 1, down = (rank + ranks - 1) % ranks, up = (rank + 1) % ranks;
  int send[2] = {value(rank, down, 0), value(rank, up, 1)}, recv[2], wrong = 0;
  MPI_Comm ring;
  MPI_Cart_create(comm, 1, &ranks, &periodic, 0, &ring);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Neighbor_alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, ring);
    wrong += (recv[0] != value(down, rank, 1)) + (recv[1] != value(up, rank, 0));
    recv[0] = recv[1] = -1;
  }
  MPI_Comm_free(&ring);
  return wrong;
}

int main(int argc, char** argv) {
  static const int sizes[] = {1, 300, kMost};
  int rank, ranks, wrong = 0;
  int *send, *recv;
  MPI_Comm copy;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Alloc_mem((MPI_Aint)sizeof(int) * kMost * ranks, MPI_INFO_NULL, &send);
  MPI_Alloc_mem((MPI_Aint)sizeof(int) * kMost * ranks, MPI_INFO_NULL, &recv);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  for (int s = 0; s < 3; ++s) {
    wrong += exchange(MPI_COMM_WORLD, send, recv, sizes[s]);
    wrong += exchange(copy, send, recv, sizes[s]);
  }
  wrong += exchange_in_ring(copy, rank, ranks);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 3, copy, &request);
  MPI_Recv(send, 1, MPI_INT, (rank + ranks - 1) % ranks, 3, copy, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  wrong += send[0] != (rank + ranks - 1) % ranks;
  MPI_Comm_free(&copy);
  MPI_Free_mem(recv);
  MPI_Free_mem(send);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("profiled: %d wrong\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
