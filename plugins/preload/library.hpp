/// @file
/// libtapa, which carries out the all-to-alls that were taken over.
#pragma once

#include "text.hpp"

namespace tapa::preload {

/// The program's MPI has the handles of the MPI 5 standard: the libtapa for them is meant from here on.
void serve_standard();

[[nodiscard]] const char* libtapa_name();

/// The libtapa that would be loaded: beside the drop-in, wherever the program goes before.
[[nodiscard]] Path libtapa_file();

/// Whether libtapa is loaded already or its file can be read.
[[nodiscard]] bool libtapa_is_there();

/// Loads it and sets it up, when MPI_Init has returned on all ranks. Where it cannot be loaded the job ends,
/// with a message.
void load_libtapa();

/// Finds out what the commonest all-to-alls do. Precondition: the ranks have agreed on libtapa.
void settle_functions();

/// Address of a TAPA_* function, or null when libtapa has none of that name (that is said). Loads libtapa
/// unless it is; a copy that the program has loaded itself is the one that is used. All ranks have agreed
/// that they can, so that a failure ends the job, with a message.
[[nodiscard]] void* tapa_function(const char* name);

/// MPI_Finalize has begun: libtapa, if it was loaded, releases what it keeps.
void end_libtapa();

}  // namespace tapa::preload
