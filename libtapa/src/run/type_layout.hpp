/// @file
/// What the recipe of a datatype says of its data in memory. Nothing is kept: type_info() does that.
#pragma once

#include <mpi.h>

#include "run/datatype.hpp"

namespace tapa {

/// Whether MPI made the type itself: such a type is never freed.
[[nodiscard]] bool is_permanent(MPI_Datatype type);

/// Throws CallError (MPI_ERR_TYPE) for types whose size MPI does not know.
[[nodiscard]] TypeInfo decode_type(MPI_Datatype type);

}  // namespace tapa
