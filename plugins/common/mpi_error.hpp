/// Failures of MPI as failures of a plugin.
#pragma once

#include <mpi.h>

#include <string>

#include "exchange/plugin_guard.hpp"

namespace dit {

/// "MPI_Comm_dup failed: MPI_ERR_COMM: invalid communicator".
[[nodiscard]] std::string mpi_failure(int code, const char* function);

/// Throws PluginFailure with DIT_ERROR_COMMUNICATION unless the code is MPI_SUCCESS.
void check_mpi(int code, const char* function);

}  // namespace dit
