/// @file
/// The MPI that the drop-in was built for, and the constants of each.
#pragma once

#include "mpi_as_passed.hpp"
#include "series.hpp"

namespace tapa::preload {

/// By mpi.h, which no other source of the drop-in includes.
extern const MpiSeries built_for;

/// What an MPI has for the names of the standard.
struct Handles {
  MPI_Comm world = nullptr;
  MPI_Comm self = nullptr;
  MPI_Datatype long_long = nullptr;
  MPI_Op minimum = nullptr;
  void* status_ignore = nullptr;
};
/// Ends the program where an Open MPI has none of its objects.
[[nodiscard]] Handles handles_of(Family family);

}  // namespace tapa::preload
