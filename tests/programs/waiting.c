/* waiting MODE: 40 all-to-alls, of which the report says who waits and what another order of the ranks would
   bring. late, late-v: rank 1 comes 20 ms late to each; turns: the ranks do, in turn; pairs, pairs-split:
   each even rank and the next one exchange 64 KiB, with the others nothing, on MPI_COMM_WORLD or a
   communicator for each two; sparse: the same, as sparse exchanges; all: all exchange as much. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "linked_names.h"

enum { CALLS = 40, LATE = 256, LONG = 65536, MOST = 16 };
static char out[MOST * LONG], in[MOST * LONG];

static void v(const int* counts, int stride, MPI_Comm comm) {
  int displs[MOST];
  for (int r = 0; r < MOST; ++r) displs[r] = r * stride;
  MPI_Alltoallv(out, counts, displs, MPI_CHAR, in, counts, displs, MPI_CHAR, comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 2 || size > MOST) {
    fprintf(stderr, "waiting: expected a mode and at most %d ranks\n", MOST);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const char* mode = argv[1];
  const struct timespec nap = {0, 20000000};
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  int few[MOST] = {0}, each[MOST];
  for (int r = 0; r < MOST; ++r) each[r] = LATE;
  if ((rank ^ 1) < size) few[rank ^ 1] = LONG;
  for (int call = 0; call < CALLS; ++call) {
    const int turns = strcmp(mode, "turns") == 0;
    const int late = turns ? call % size : strncmp(mode, "late", 4) == 0 ? 1 : -1;
    if (rank == late) nanosleep(&nap, NULL);
    if (strcmp(mode, "late") == 0 || turns)
      MPI_Alltoall(out, LATE, MPI_CHAR, in, LATE, MPI_CHAR, MPI_COMM_WORLD);
    if (strcmp(mode, "late-v") == 0) v(each, LATE, MPI_COMM_WORLD);
    if (strcmp(mode, "pairs") == 0) v(few, LONG, MPI_COMM_WORLD);
    if (strcmp(mode, "pairs-split") == 0) MPI_Alltoall(out, LONG, MPI_CHAR, in, LONG, MPI_CHAR, pair);
#ifdef USE_TAPA
    if (strcmp(mode, "sparse") == 0) {
      const int to = rank ^ 1;
      const MPI_Count bytes = LONG;
      TAPA_Received received;
      TAPA_Sparse_exchange(out, to < size, &to, &bytes, MPI_CHAR, MPI_COMM_WORLD, &received);
      TAPA_Received_free(&received);
    }
#endif
    if (strcmp(mode, "all") == 0) MPI_Alltoall(out, LONG, MPI_CHAR, in, LONG, MPI_CHAR, MPI_COMM_WORLD);
  }
  MPI_Comm_free(&pair);
  return MPI_Finalize();
}
