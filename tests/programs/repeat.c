/* All-to-alls of one size on MPI_COMM_WORLD, and of another one with blocks that differ; each result is
 * checked. Usage: repeat BYTES CALLS */
#include <mpi.h>
#ifdef LINKED
#include <tapa/tapa.h>
#define MPI_Alltoall TAPA_Alltoall
#define MPI_Alltoallv TAPA_Alltoallv
#endif
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

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
    MPI_Alltoallv(send, counts[0], places[0], MPI_BYTE, recv, counts[1], places[1], MPI_BYTE, MPI_COMM_WORLD);
  } else {
    MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < counts[1][p]; ++i) bad += recv[places[1][p] + i] != value(p, rank, call, i);
  }
  free(send);
  free(recv);
  return bad;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int bytes = argc == 3 ? atoi(argv[1]) : 0, calls = argc == 3 ? atoi(argv[2]) : 0;
  int bad = 0;
  if (bytes < 1 || calls < 1 || size > 64) {
    fprintf(stderr, "usage: repeat BYTES CALLS, of 1 or more, on at most 64 ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int call = 0; call < calls; ++call) bad += wrong(bytes, call, 0);
  for (int call = 0; call < calls / 4; ++call) bad += wrong(bytes, call, 1);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d wrong bytes\n", bad);
  MPI_Finalize();
  return bad != 0;
}
