/* MPI_Alltoallw of blocks with gaps, 2 MiB a rank, again and again: memory that a library takes for a call
 * and gives back costs a page fault for each of its pages, each time. Prints whether the calls have few:
 * fewer than half of the pages of the blocks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { kRows = 16384, kCalls = 40 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rows = kRows / size;
  double* send = calloc((size_t)kRows * 32, sizeof *send);
  double* recv = calloc((size_t)kRows * 32, sizeof *recv);
  int *counts = malloc((size_t)size * sizeof *counts), *displs = malloc((size_t)size * sizeof *displs);
  MPI_Datatype* types = malloc((size_t)size * sizeof *types);
  if (!send || !recv || !counts || !displs || !types) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Datatype half; /* of each row of 32 numbers the first 16 */
  MPI_Type_vector(rows, 16, 32, MPI_DOUBLE, &half);
  MPI_Type_commit(&half);
  for (int i = 0; i < size; ++i)
    counts[i] = 1, displs[i] = i * rows * 32 * (int)sizeof *send, types[i] = half;
  for (int i = 0; i < kRows * 32; ++i) send[i] = rank + i, recv[i] = -1;
  long before = 0;
  for (int call = 0; call < 2 * kCalls; ++call) {
    if (call == kCalls) before = faults();
    MPI_Alltoallw(send, counts, displs, types, recv, counts, displs, types, MPI_COMM_WORLD);
  }
  long most = faults() - before;
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  const long pages = (long)kCalls * kRows * 16 * (long)sizeof *send / 4096;
  if (rank == 0 && most < pages / 2) printf("few page faults\n");
  if (rank == 0 && most >= pages / 2)
    printf("%ld page faults in %d calls that move %ld pages\n", most, kCalls, pages);
  MPI_Type_free(&half);
  free(send);
  free(recv);
  free(counts);
  free(displs);
  free(types);
  MPI_Finalize();
  return 0;
}
