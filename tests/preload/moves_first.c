/* moves_first FOLDER: goes there before MPI_Init; its all-to-all must be right. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 2 || chdir(argv[1]) != 0) return 2;
  MPI_Init(&argc, &argv);
  int sent = 7, received = 0;
  MPI_Alltoall(&sent, 1, MPI_INT, &received, 1, MPI_INT, MPI_COMM_SELF);
  printf("received %d\n", received);
  MPI_Finalize();
  return received == 7 ? 0 : 1;
}
