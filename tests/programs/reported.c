/* All-to-alls on three communicators: 20 on MPI_COMM_WORLD, 10 on its halves, 3 on MPI_COMM_SELF. */
#include <mpi.h>

static void exchange(MPI_Comm comm, int calls) {
  int send[64] = {0}, recv[64];
  for (int i = 0; i < calls; ++i) MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, 2 * rank / size, rank, &half);
  exchange(MPI_COMM_WORLD, 20);
  exchange(half, 10);
  exchange(MPI_COMM_SELF, 3);
  MPI_Comm_free(&half);
  return MPI_Finalize();
}
