/* All-to-alls of one size, and of another one with blocks that differ; each result is checked. On
 * MPI_COMM_WORLD, with a process that is started for it (merged), or on two duplicates one after the other
 * (twice). Usage: repeat BYTES CALLS [merged|twice|FOLDER], to which it goes before */
#include <mpi.h>
#ifdef LINKED
#include <tapa/tapa.h>
#define MPI_Alltoall TAPA_Alltoall
#define MPI_Alltoallv TAPA_Alltoallv
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static MPI_Comm comm, between = MPI_COMM_NULL;

static unsigned char value(int from, int to, int call, int i) {
  return (unsigned char)(from * 31 + to * 7 + call + i);
}

/* Blocks of `bytes` bytes, or (ragged) of one more or less. */
static int block(int from, int to, int bytes, int ragged) {
  return ragged ? bytes + (from + to) % 2 : bytes;
}

static int wrong(int bytes, int call, int ragged) {
  unsigned char* send = malloc((size_t)size * (size_t)(bytes + 1));
  unsigned char* recv = calloc((size_t)size, (size_t)(bytes + 1));
  int counts[2][64], places[2][64], bad = 0;
  for (int p = 0; p < size; ++p) {
    counts[0][p] = block(rank, p, bytes, ragged), counts[1][p] = block(p, rank, bytes, ragged);
    for (int side = 0; side < 2; ++side)
      places[side][p] = p == 0 ? 0 : places[side][p - 1] + counts[side][p - 1];
    for (int i = 0; i < counts[0][p]; ++i) send[places[0][p] + i] = value(rank, p, call, i);
  }
  if (ragged) {
    MPI_Alltoallv(send, counts[0], places[0], MPI_BYTE, recv, counts[1], places[1], MPI_BYTE, comm);
  } else {
    MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
  }
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < counts[1][p]; ++i) bad += recv[places[1][p] + i] != value(p, rank, call, i);
  }
  free(send);
  free(recv);
  return bad;
}

static int all_wrong(int bytes, int calls) {
  int bad = 0;
  for (int call = 0; call < calls; ++call) bad += wrong(bytes, call, 0);
  for (int call = 0; call < calls / 4; ++call) bad += wrong(bytes, call, 1);
  return bad;
}

/* The job's ranks and those of a second one. */
static MPI_Comm with_another(char** argv) {
  MPI_Comm parent, all;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
  else
    between = parent;
  MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
  return all;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int more = argc == 4, merged = more && strcmp(argv[3], "merged") == 0;
  const int twice = more && strcmp(argv[3], "twice") == 0;
  comm = merged ? with_another(argv) : MPI_COMM_WORLD;
  if (twice) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int bytes = argc >= 3 ? atoi(argv[1]) : 0, calls = argc >= 3 ? atoi(argv[2]) : 0;
  int bad = 0;
  if (bytes < 1 || calls < 1 || size > 64) {
    fprintf(stderr, "usage: repeat BYTES CALLS [merged|twice|FOLDER], of 1 or more, on at most 64 ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (more && !merged && !twice && chdir(argv[3]) != 0) {
    perror(argv[3]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  bad += all_wrong(bytes, calls);
  if (twice) {
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    bad += all_wrong(bytes, calls);
  }
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0) printf("%d wrong bytes\n", bad);
  if (merged || twice) MPI_Comm_free(&comm);
  if (merged) MPI_Comm_disconnect(&between);
  MPI_Finalize();
  return bad != 0;
}
