/* What all-to-alls cost a program from its first one on: communicators that are made, used a few times and
 * freed, and the first calls of a process. Knows nothing of libtapa: bench/lifetime runs it with and without
 * the drop-in.
 *
 * Usage: comm_lifetime BYTES REPEATS. Prints one line for each case: its name, then microseconds (of the
 * slowest rank): for "life N", a median over the repeats of dup + N calls + free; for "first N", the time
 * from the first call to the end of the Nth on MPI_COMM_WORLD. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "plain_flags.h"

static char *send, *recv;
static int bytes, rank;

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void call(MPI_Comm comm) {
  MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
}

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

static void first_calls(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  double at[6];
  int done = 0, i = 0;
  for (int count = 1; i < 6; count *= 10, ++i) {
    for (; done < count; ++done) call(MPI_COMM_WORLD);
    at[i] = MPI_Wtime() - begin;
  }
  for (int count = 1, k = 0; k < 6; count *= 10, ++k) {
    const double seconds = slowest(at[k]);
    if (rank == 0) printf("first %d\t%.2f\n", count, seconds * 1e6);
  }
}

static void life(int calls, int repeats) {
  double* times = malloc((size_t)repeats * sizeof(double));
  if (times == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < repeats; ++i) {
    MPI_Comm comm;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int k = 0; k < calls; ++k) call(comm);
    MPI_Comm_free(&comm);
    times[i] = slowest(MPI_Wtime() - begin);
  }
  qsort(times, (size_t)repeats, sizeof(double), ascending);
  if (rank == 0) printf("life %d\t%.2f\n", calls, times[repeats / 2] * 1e6);
  free(times);
}

int main(int argc, char** argv) {
  static const int calls[] = {1, 3, 10, 100};
  const int status = plain_flags(argc, argv,
                                 "usage: mpirun -n RANKS comm_lifetime BYTES REPEATS\n"
                                 "What communicators cost that are made, used a few times and freed, in "
                                 "microseconds; see bench/lifetime.\n");
  if (status >= 0) return status;
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bytes = argc > 2 ? atoi(argv[1]) : 0;
  const int repeats = argc > 2 ? atoi(argv[2]) : 0;
  if (bytes < 1 || repeats < 1) {
    if (rank == 0) fprintf(stderr, "usage: comm_lifetime BYTES REPEATS, both 1 or more\n");
    MPI_Finalize();
    return 2;
  }
  send = calloc((size_t)size, (size_t)bytes);
  recv = calloc((size_t)size, (size_t)bytes);
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  first_calls();
  life(1, repeats); /* not counted: MPI's own first duplicate */
  for (int i = 0; i < 4; ++i) life(calls[i], repeats);
  free(send);
  free(recv);
  MPI_Finalize();
  return 0;
}
