/// @file
/// MPI's blocking all-to-all of blocks that are described here, as bytes: its algorithms may mix up the
/// layouts of two datatypes, so datatypes are packed and unpacked by us.
#pragma once

#include <mpi.h>

#include "run/arguments.hpp"

namespace tapa {

/// Carries `exchange`, of a call of this form, out on `comm`. Returns MPI's code. Precondition:
/// countable_in_bytes().
[[nodiscard]] int all_to_all_in_bytes(Form form, const Exchange& exchange, MPI_Comm comm);

/// Whether MPI's int counts and displacements suffice. A local matter: a rank that hands MPI the call as it
/// was made calls the same function of MPI and moves the same bytes.
[[nodiscard]] bool countable_in_bytes(const Exchange& exchange);

/// Hands a blocking call to MPI: as it was made when `as_made`, or when MPI could not count the bytes, else
/// in bytes. `scratch` is overwritten. Returns MPI's code.
[[nodiscard]] int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, bool as_made,
                           Exchange& scratch);

}  // namespace tapa
