/* Memory of MPI_Alloc_mem in a program that forks: what the child writes is the child's. Prints what the
 * parent sees. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 20 };

int main(int argc, char** argv) {
  char* memory;
  int rank, status = 0, changed = 0;
  pid_t child;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &memory);
  memset(memory, 1, kBytes);
  child = fork();
  if (child == 0) {
    memset(memory, 2, kBytes);
    _exit(0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < kBytes; ++i) changed += memory[i] != 1;
  MPI_Free_mem(memory);
  MPI_Allreduce(MPI_IN_PLACE, &changed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("bytes that the parents see changed: %d\n", changed);
  MPI_Finalize();
  return 0;
}
