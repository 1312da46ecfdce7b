/* All-to-alls from memory of MPI_Alloc_mem, long and short, that is freed and taken again: prints one line
 * for each size. Knows nothing of libtapa. Exit status 1 when data is wrong. */
#include <mpi.h>
#include <stdio.h>

static int value(int source, int destination, int i) {
  return (source * 131 + destination) * 17 + i;
}

static int wrong(const int* blocks, int n, int rank, int ranks) {
  int p, i, count = 0;
  for (p = 0; p < ranks; ++p)
    for (i = 0; i < n; ++i) count += blocks[p * n + i] != value(p, rank, i);
  return count;
}

int main(int argc, char** argv) {
  static const int sizes[] = {1, 1000, 100000};
  int rank, ranks, s, repeat, bad = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (s = 0; s < 3; ++s) {
    const int n = sizes[s];
    int errors = 0;
    for (repeat = 0; repeat < 5; ++repeat) {
      int *send, *recv, p, i;
      MPI_Alloc_mem((MPI_Aint)sizeof(int) * n * ranks, MPI_INFO_NULL, &send);
      MPI_Alloc_mem((MPI_Aint)sizeof(int) * n * ranks, MPI_INFO_NULL, &recv);
      for (p = 0; p < ranks; ++p)
        for (i = 0; i < n; ++i) send[p * n + i] = value(rank, p, i);
      MPI_Alltoall(send, n, MPI_INT, recv, n, MPI_INT, MPI_COMM_WORLD);
      errors += wrong(recv, n, rank, ranks);
      MPI_Free_mem(recv);
      MPI_Free_mem(send);
    }
    MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ints for each rank: %d wrong\n", n, errors);
    bad += errors;
  }
  MPI_Finalize();
  return bad != 0;
}
