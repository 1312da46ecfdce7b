/// @file
/// libtapa, which carries out the all-to-alls that were taken over.
#pragma once

#include <array>
#include <string>

namespace tapa::preload {

/// The libtapa that would be loaded: beside the drop-in.
[[nodiscard]] const std::string& libtapa_file();

/// Whether libtapa is loaded already or its file can be read.
[[nodiscard]] bool libtapa_is_there();

/// Loads it when MPI_Init has returned: the first all-to-all would take a hundred times as long as MPI's own,
/// in a program that may make only one. False: it cannot be loaded; what fails now fails in the first
/// all-to-all too, which says why.
bool load_libtapa();

/// The same for what the commonest all-to-alls do. Precondition: the ranks have agreed on libtapa.
void settle_functions();

/// Numbers of ranks; 0: none.
using EarlySizes = std::array<long long, 8>;
/// Those of communicators that should be looked at in their first call, as this process has it from earlier
/// runs. Precondition for both: libtapa is loaded.
[[nodiscard]] EarlySizes early_sizes();
/// Tells libtapa; the same on all ranks.
void talk_early(const EarlySizes& sizes);

/// Address of a TAPA_* function, or null when libtapa has none of that name (that is said). Loads libtapa
/// unless it is; a copy that the program has loaded itself is the one that is used. All ranks have agreed
/// that they can, so that a failure ends the job, with a message.
[[nodiscard]] void* tapa_function(const char* name);

/// MPI_Finalize has begun: libtapa, if it was loaded, releases what it keeps.
void end_libtapa();

}  // namespace tapa::preload
