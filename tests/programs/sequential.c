/* A sequential program that was linked with stubs in place of an MPI. */
#include <stdio.h>

#include "mpi_stubs.h"

int main(int argc, char** argv) {
  double send = 4.5, recv = 0;
  double* memory;
  int rank = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(0, &rank);
  MPI_Alltoall(&send, 1, (int)sizeof send, &recv, 1, (int)sizeof recv, 0);
  MPI_Alloc_mem(100000, 0, &memory);
  memory[0] = recv;
  printf("rank %d has %g\n", rank, memory[0]);
  MPI_Free_mem(memory);
  MPI_Finalize();
  return recv != send;
}
