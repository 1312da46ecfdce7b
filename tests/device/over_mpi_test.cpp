// A device communicator of an MPI communicator: where it cannot be, all ranks get the same clear error.
#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "tapa/device_mpi.h"

namespace {

int failures = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s; last error: \"%s\"\n", what, TAPA_Device_last_error());
  ++failures;
}

void expect_same_on_all(int code) {
  int least = code;
  int most = code;
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  expect(least == most, "ranks get different codes");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  expect(TAPA_Device_comm_create_mpi(MPI_COMM_NULL, nullptr, &comm) == TAPA_DEVICE_ERR_ARG &&
             std::strstr(TAPA_Device_last_error(), "mpi_comm is MPI_COMM_NULL") != nullptr,
         "MPI_COMM_NULL");
  const int code = TAPA_Device_comm_create_mpi(MPI_COMM_WORLD, nullptr, &comm);
  expect_same_on_all(code);
  if (code == TAPA_DEVICE_SUCCESS) {
    expect(TAPA_Device_comm_free(&comm) == TAPA_DEVICE_SUCCESS, "free");
  } else {
    expect(code == TAPA_DEVICE_ERR_UNSUPPORTED, "without a GPU or CUDA");
    expect(comm == TAPA_DEVICE_COMM_NULL, "no communicator after an error");
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
