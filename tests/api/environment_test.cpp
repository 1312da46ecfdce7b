// Wrong values in rank 0's environment: every rank gets the same error, again on each call, and MPI itself
// still works.
#include <mpi.h>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

// Arguments: the pieces of text that the message must hold.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  int a[4] = {1, 2, 3, 4};
  int b[4] = {0, 0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    const int code = i == 0 ? TAPA_Comm_setup(MPI_COMM_WORLD)
                            : TAPA_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD);
    const std::string message = TAPA_Last_error();
    expect(code == MPI_ERR_ARG, "error class " + std::to_string(code) + ", message: " + message);
    for (int k = 1; k < argc; ++k) {
      expect(message.find(argv[k]) != std::string::npos, "\"" + message + "\" lacks \"" + argv[k] + "\"");
    }
  }
  return finish("environment_test");
}
