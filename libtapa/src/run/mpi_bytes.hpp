/// @file
/// MPI's blocking all-to-all of blocks that are described here, as bytes: its algorithms may mix up the
/// layouts of two datatypes, so datatypes are packed and unpacked by us.
#pragma once

#include <mpi.h>

#include "run/arguments.hpp"

namespace tapa {

/// Hands a blocking call, whose blocks are `exchange`, to MPI on `comm`: as it was made when `as_made`, or
/// when MPI could not count the bytes, else in bytes. Returns MPI's code. Which of the two is a local matter:
/// either way the same function of MPI is called and the same bytes move.
[[nodiscard]] int call_mpi(const Arguments& arguments, const Exchange& exchange, MPI_Comm comm, bool as_made);

/// The same for a call whose blocks are not described yet: they are only where that is needed, in `scratch`.
[[nodiscard]] int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, bool as_made,
                           Exchange& scratch);

}  // namespace tapa
