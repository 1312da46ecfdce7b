/* A program that leaves a wrong call by a jump out of its error handler, and goes on with right ones. Prints
 * how often the handler ran and how many elements were wrong. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>

enum { kMostRanks = 64, kCalls = 20 };

static jmp_buf back;

static void handle(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  longjmp(back, 1);
}

int main(int argc, char** argv) {
  int send[kMostRanks], recv[kMostRanks];
  int rank, size, wrong = 0;
  volatile int jumps = 0;
  MPI_Errhandler handler;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (int i = 0; i < size; ++i) send[i] = 100 * rank + i;
  for (volatile int call = 0; call < kCalls; ++call) {
    if (call % 5 == 0) { /* every rank calls wrongly, so that nobody waits */
      if (setjmp(back) == 0)
        MPI_Alltoall(send, -1, MPI_INT, recv, -1, MPI_INT, MPI_COMM_WORLD);
      else
        ++jumps;
    }
    MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i) wrong += recv[i] != 100 * i + rank;
  }
  MPI_Errhandler_free(&handler);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("jump: %d jumps, %d wrong\n", jumps, wrong);
  MPI_Finalize();
  return wrong != 0;
}
