/* A mistake under MPI_ERRORS_ARE_FATAL: of all ranks, or, with argument "last", of the last one alone, which
 * the others wait for. Never ends well. */
#include <mpi.h>
#include <string.h>

int main(int argc, char** argv) {
  int rank, size, send[64] = {0}, recv[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD);
  const int alone = argc > 1 && strcmp(argv[1], "last") == 0;
  MPI_Alltoall(send, !alone || rank == size - 1 ? -1 : 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
