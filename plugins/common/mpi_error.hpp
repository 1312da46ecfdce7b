/// Errors of the exchanges over MPI, each with the status that the caller gets.
#pragma once

#include <mpi.h>

#include <stdexcept>
#include <string>

#include "dit/exchange.h"

namespace dit {

class PluginError : public std::runtime_error {
 public:
  PluginError(dit_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  [[nodiscard]] dit_status status() const { return status_; }

 private:
  dit_status status_;
};

/// "MPI_Comm_dup failed: MPI_ERR_COMM: invalid communicator".
[[nodiscard]] std::string mpi_failure(int code, const char* function);

/// Throws PluginError with DIT_ERROR_COMMUNICATION unless the code is MPI_SUCCESS.
void check_mpi(int code, const char* function);

}  // namespace dit
