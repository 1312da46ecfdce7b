/// @file
/// Device communicators of ranks that have MPI.
#pragma once

#include <mpi.h>

#include <memory>

#include "tapa/device.h"

namespace tapa::device {

/// As TAPA_Device_comm_create_mpi, of a communicator of the library's own with MPI_ERRORS_RETURN, which
/// outlives what is made and carries its collective calls.
int create_on_own_comm(const std::shared_ptr<MPI_Comm>& own, const TAPA_Device_options* options,
                       TAPA_Device_comm* comm);

}  // namespace tapa::device
