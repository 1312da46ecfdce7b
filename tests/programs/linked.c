/* A program that uses libtapa by name and MPI beside it: there must be one libtapa, with or without the
 * drop-in. What is set for a communicator through TAPA_Comm_set then also holds for its MPI_Alltoall. */
#include <mpi.h>
#include <stdio.h>
#include <tapa/tapa.h>

enum { kMostRanks = 64 };

int main(int argc, char** argv) {
  int rank, size, wrong = 0;
  int send[kMostRanks], recv[2][kMostRanks];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < size; ++i) send[i] = 100 * rank + i;
  TAPA_Comm_set(MPI_COMM_WORLD, "plan", "bruck:radix=3");
  TAPA_Alltoall(send, 1, MPI_INT, recv[0], 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(send, 1, MPI_INT, recv[1], 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) wrong += (recv[0][i] != 100 * i + rank) + (recv[1][i] != 100 * i + rank);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("linked: %d wrong\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
