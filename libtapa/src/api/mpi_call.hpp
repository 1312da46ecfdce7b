/// @file
/// Hands a call to MPI's own all-to-all.
#pragma once

#include <mpi.h>

#include <vector>

#include "api/arguments.hpp"

namespace tapa {

/// Memory that a nonblocking call handed to MPI needs until it completes.
struct MpiCallStorage {
  std::vector<int> numbers;
};

/// Calls MPI's all-to-all of the same form on `comm`: blocking when `request` is null, else nonblocking.
/// `ranks` is the number of peers (of the remote group for intercommunicators). Large counts that MPI-3
/// cannot express are an Error. Returns MPI's code.
int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, MPI_Request* request,
             MpiCallStorage& storage);

/// Makes MPI's own persistent all-to-all of the same form. Where this MPI has none, or none with large
/// counts, that is an Error. Returns MPI's code.
int call_mpi_init(const Arguments& arguments, MPI_Request* request);

}  // namespace tapa
