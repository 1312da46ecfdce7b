/// @file
/// The end of a job whose ranks cannot go on together.
#pragma once

#include <mpi.h>

#include <chrono>
#include <thread>

#include "run/log.hpp"

namespace tapa {

/// Says why on standard error first. MPICH's launcher may drop what it has not read yet when a job is
/// aborted.
inline void end_job(MPI_Comm comm, const char* what, const char* why) {
  log_error(what, why);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  PMPI_Abort(comm, 1);
}

}  // namespace tapa
