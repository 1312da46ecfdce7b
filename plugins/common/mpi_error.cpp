#include "common/mpi_error.hpp"

namespace dit {

std::string mpi_failure(int code, const char* function) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS || length == 0)
    return std::string(function) + " failed with code " + std::to_string(code);
  return std::string(function) + " failed: " + text;
}

void check_mpi(int code, const char* function) {
  if (code != MPI_SUCCESS) throw PluginFailure(DIT_ERROR_COMMUNICATION, mpi_failure(code, function));
}

}  // namespace dit
