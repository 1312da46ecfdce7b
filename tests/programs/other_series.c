/* Makes MPI say that it is of another series: OTHER_SERIES is what PMPI_Get_library_version gives. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int PMPI_Get_library_version(char* version, int* length) {
  const char* const text = getenv("OTHER_SERIES");
  *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "%s", text != NULL ? text : "");
  return MPI_SUCCESS;
}
