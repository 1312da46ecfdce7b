/// @file
/// Messages of MPI's that are received to be dropped.
#pragma once

#include <mpi.h>

namespace tapa {

/// Starts to receive one, which ends with an error that is_cut_short() knows. Returns MPI's code.
int start_dropping(int source, int tag, MPI_Comm comm, MPI_Request* request);
[[nodiscard]] bool is_cut_short(int code);

/// Waits for one. Returns MPI's code of any other error.
int drop_message(int source, int tag, MPI_Comm comm);

}  // namespace tapa
