/* A rank, the second argument, finds MPI's own all-to-all, behind all that stands before it, and calls that:
 * on MPI_COMM_WORLD after calls as the others make them, with a first argument "new" first on another
 * communicator, with "never" not; with "late" it waits for long in other calls of MPI instead. Without the
 * drop-in all that is right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Alltoall(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);

static Alltoall* mpis_own(void) {
  Dl_info info;
  void* library = NULL;
  if (dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_library_version"), &info))
    library = dlopen(info.dli_fname, RTLD_LAZY);
  return library != NULL ? (Alltoall*)dlsym(library, "MPI_Alltoall") : NULL;
}

static void wait_in_mpi(double seconds) {
  int flag;
  const double end = MPI_Wtime() + seconds;
  while (MPI_Wtime() < end) MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  int rank, ranks, who, send[64], recv[64], wrong = 0;
  MPI_Comm comm = MPI_COMM_WORLD;
  Alltoall* alltoall = MPI_Alltoall;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* mode = argc > 1 ? argv[1] : "";
  who = argc > 2 ? atoi(argv[2]) : 0;
  if (ranks > 64 || (rank == who && mpis_own() == NULL)) MPI_Abort(MPI_COMM_WORLD, 2);
  if (strcmp(mode, "new") == 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == who) alltoall = mpis_own();
  }
  for (int call = 0; call < 12; ++call) {
    if (call == 6) MPI_Barrier(MPI_COMM_WORLD); /* nobody has sent anything of this call while it is missed */
    if (call == 6 && rank == who) {
      if (strcmp(mode, "late") == 0) wait_in_mpi(6);
      if (strcmp(mode, "late") != 0 && strcmp(mode, "never") != 0) alltoall = mpis_own();
    }
    for (int r = 0; r < ranks; ++r) send[r] = rank * 100 + r + call;
    alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, comm);
    for (int r = 0; r < ranks; ++r) wrong += recv[r] != r * 100 + rank + call;
  }
  printf("rank %d: %d wrong\n", rank, wrong);
  MPI_Finalize();
  return wrong != 0;
}
