/* A job without an exchange: what its MPI itself does where something is refused. */
#include <mpi.h>

int main(int argc, char** argv) {
  int level = 0, size = 0, sent[64] = {0}, received[64];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size <= 64) MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
  return MPI_Finalize();
}
