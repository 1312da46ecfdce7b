/// @file
/// What the recipe of a datatype says of its data in memory. Nothing is kept: type_info() does that.
#pragma once

#include <mpi.h>

#include "run/datatype.hpp"

namespace tapa {

/// Whether MPI made the type itself: such a type is never freed.
[[nodiscard]] bool is_permanent(MPI_Datatype type);

/// Throws CallError (MPI_ERR_TYPE) for types whose size MPI does not know. `briefly`: the recipe of a type
/// whose data has gaps is not read, so that its runs are not known.
[[nodiscard]] TypeInfo decode_type(MPI_Datatype type, bool briefly = false);

/// type_info() reads the recipe of a type with gaps when it has been asked for some time, as programs may
/// make one for each call; for long blocks it is read before. Returns what type_info() says then.
TypeInfo read_recipe(MPI_Datatype type);

}  // namespace tapa
