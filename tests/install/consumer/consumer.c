/* A user's program: exchanges one int with every rank and checks what came. */
#include <stdio.h>
#include <stdlib.h>
#include <tapa/tapa.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  int major = -1;
  int minor = -1;
  int patch = -1;
  TAPA_Get_version(&major, &minor, &patch);
  int wrong = major != TAPA_VERSION_MAJOR || minor != TAPA_VERSION_MINOR || patch != TAPA_VERSION_PATCH;
  if (wrong)
    printf("header %d.%d.%d, library %d.%d.%d\n", TAPA_VERSION_MAJOR, TAPA_VERSION_MINOR, TAPA_VERSION_PATCH,
           major, minor, patch);

  int* sent = malloc((size_t)ranks * sizeof *sent);
  int* received = malloc((size_t)ranks * sizeof *received);
  for (int peer = 0; peer < ranks; ++peer) {
    sent[peer] = 1000 * rank + peer;
    received[peer] = -1;
  }
  if (TAPA_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS) {
    printf("rank %d: %s\n", rank, TAPA_Last_error());
    wrong = 1;
  }
  for (int peer = 0; peer < ranks; ++peer) {
    if (received[peer] != 1000 * peer + rank) {
      printf("rank %d: %d from rank %d, expected %d\n", rank, received[peer], peer, 1000 * peer + rank);
      wrong = 1;
    }
  }
  free(sent);
  free(received);
  if (wrong) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
