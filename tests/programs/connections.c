/* MPI connects two ranks when the first message goes between them. How many others a rank is connected to
 * when MPI_Init has returned: none, or with the drop-in few of them, as many as a collective call with short
 * messages takes. LINKED: the same when the ranks have made their first call of the library, rank 0 apart,
 * which hears all; with an argument the last rank makes it that many seconds late. */
#include <arpa/inet.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/socket.h>
#ifdef LINKED
#include <stdlib.h>
#include <tapa/tapa.h>
#include <unistd.h>
#endif

int main(int argc, char** argv) {
  int rank, ranks, connected = 0, most = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#ifdef LINKED
  if (argc > 1 && rank == ranks - 1) sleep((unsigned)atoi(argv[1]));
  TAPA_Comm_setup(MPI_COMM_WORLD);
#endif
  for (int fd = 0; fd < 1024; ++fd) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getpeername(fd, (struct sockaddr*)&address, &length) == 0 && address.sin_family == AF_INET)
      ++connected;
  }
#ifdef LINKED
  if (rank == 0) connected = 0;
#endif
  MPI_Allreduce(&connected, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && most < ranks - 1) printf("connected to few\n");
  if (rank == 0 && most >= ranks - 1) printf("connected to %d\n", most);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, &connected, 0, MPI_INT, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
