/* An "MPI" for sequential programs, as solvers bring one along (libmpiseq): one rank, a few functions, no
 * profiling names. */
#include "mpi_stubs.h"

#include <stdlib.h>
#include <string.h>

int MPI_Init(int* argc, char*** argv) {
  (void)argc;
  (void)argv;
  return 0;
}
int MPI_Comm_rank(int comm, int* rank) {
  (void)comm;
  *rank = 0;
  return 0;
}
int MPI_Alltoall(const void* send, int sendcount, int sendtype, void* recv, int recvcount, int recvtype,
                 int comm) {
  (void)recvcount;
  (void)recvtype;
  (void)comm;
  memcpy(recv, send, (size_t)(sendcount * sendtype));
  return 0;
}
int MPI_Alloc_mem(long size, int info, void* base) {
  (void)info;
  *(void**)base = malloc((size_t)size);
  return *(void**)base == NULL;
}
int MPI_Free_mem(void* base) {
  free(base);
  return 0;
}
int MPI_Finalize(void) {
  return 0;
}
