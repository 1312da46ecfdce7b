/* A distributed matrix transpose: the one place where a code calls MPI_Alltoall changes by its prefix only.
 * mpirun -n 4 build/release/bin/examples/transpose */
#include <stdio.h>
#include <stdlib.h>
#include <tapa/tapa.h>

int main(int argc, char** argv) {
  int rank, ranks, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  /* Each rank holds `rows` rows of an n x n matrix; the block for rank d is its columns d*rows ... */
  const int rows = 8, n = rows * ranks;
  double* send = malloc(sizeof(double) * (size_t)(rows * n));
  double* recv = malloc(sizeof(double) * (size_t)(rows * n));
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int d = 0; d < ranks; ++d) {
    for (int j = 0; j < rows; ++j) { /* blocks are transposed while they are packed */
      for (int i = 0; i < rows; ++i)
        send[(d * rows + j) * rows + i] = (rank * rows + i) * 1000.0 + d * rows + j;
    }
  }

  /* was: MPI_Alltoall(...) */
  TAPA_Alltoall(send, rows * rows, MPI_DOUBLE, recv, rows * rows, MPI_DOUBLE, MPI_COMM_WORLD);

  /* Row j of this rank's part of the transpose: element i of the block from rank s is column s*rows+i. */
  for (int s = 0; s < ranks; ++s) {
    for (int j = 0; j < rows; ++j) {
      for (int i = 0; i < rows; ++i) {
        wrong += recv[(s * rows + j) * rows + i] != (s * rows + i) * 1000.0 + rank * rows + j;
      }
    }
  }
  char plan[128];
  int length;
  TAPA_Comm_plan(MPI_COMM_WORLD, sizeof(double) * (size_t)(rows * rows), plan, sizeof plan, &length);
  if (rank == 0) printf("transposed %d x %d, plan %s\n", n, n, plan);
  free(send);
  free(recv);
  MPI_Finalize();
  return wrong != 0;
}
