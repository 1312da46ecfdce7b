/* The plugin of plugin_host: an all-to-all in a library that came, with MPI, after the program began. */
#include <mpi.h>
#include <stdio.h>

enum { kMostRanks = 64 };

int run(void);

int run(void) {
  int rank, size, wrong = 0;
  int send[kMostRanks], recv[kMostRanks];
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < size; ++i) send[i] = 100 * rank + i;
  MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) wrong += recv[i] != 100 * i + rank;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("plugin: %d wrong\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
