// For tests whose requests another thread completes, under the thread sanitizer: MPI's functions that start
// and complete requests tell it what MPI orders. The library calls MPI by its PMPI_ names, so its calls stay
// as they are.
#include "run/handover.hpp"

#include <mpi.h>

#ifdef __SANITIZE_THREAD__

namespace {

template <class Call>
int ordered(Call call) {
  tapa::hand_over();
  const int code = call();
  tapa::take_over();
  return code;
}

}  // namespace

extern "C" {

int MPI_Start(MPI_Request* request) {
  return ordered([&] { return PMPI_Start(request); });
}
int MPI_Startall(int count, MPI_Request requests[]) {
  return ordered([&] { return PMPI_Startall(count, requests); });
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return ordered([&] { return PMPI_Wait(request, status); });
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  return ordered([&] { return PMPI_Waitall(count, requests, statuses); });
}
int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  return ordered([&] { return PMPI_Waitany(count, requests, index, status); });
}
int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  return ordered([&] { return PMPI_Testany(count, requests, index, flag, status); });
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return ordered([&] { return PMPI_Test(request, flag, status); });
}
int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  return ordered([&] { return PMPI_Testall(count, requests, flag, statuses); });
}

}  // extern "C"

#endif
