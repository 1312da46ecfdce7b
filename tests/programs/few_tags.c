/* For legal: an MPI that has few tags. The program's functions come before those of the libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

enum { kLargestTag = (1 << 20) - 1 };

static int lowered(const char* name, MPI_Comm comm, int key, void* value, int* flag) {
  static int largest = kLargestTag;
  int (*next)(MPI_Comm, int, void*, int*);
  *(void**)&next = dlsym(RTLD_NEXT, name);
  const int status = next(comm, key, value, flag);
  if (status == MPI_SUCCESS && *flag && key == MPI_TAG_UB) *(void**)value = &largest;
  return status;
}

int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* flag) {
  return lowered("MPI_Comm_get_attr", comm, key, value, flag);
}
int PMPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* flag) {
  return lowered("PMPI_Comm_get_attr", comm, key, value, flag);
}
