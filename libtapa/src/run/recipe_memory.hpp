/// @file
/// Whether a datatype's recipe can be had in a process whose memory is limited.
#pragma once

#include <mpi.h>

namespace tapa {

/// Whether there is memory for what MPI_Type_get_contents of a derived type makes. Open MPI copies the whole
/// description of each type that the recipe names, and crashes where it gets no memory for that; it says
/// nowhere how long they are, so the longest that the type's data can have is asked of the system, which
/// gives it for a moment. True where the process has no limit. Throws CallError.
[[nodiscard]] bool has_memory_for_recipe(MPI_Datatype type);

}  // namespace tapa
