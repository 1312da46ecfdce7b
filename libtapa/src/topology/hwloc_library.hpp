/// @file
/// hwloc's header for a library that is loaded when it is asked, not linked: MPI libraries bring versions of
/// their own, and a process that is linked with another one gets whichever comes first.
///
/// hwloc's functions are named tapa_hwloc_* behind this header, by hwloc's own means for those who embed it;
/// those that the project uses are defined in hwloc_library.cpp, and pass calls on.
#pragma once

#include <hwloc/autogen/config.h>
#undef HWLOC_SYM_TRANSFORM
#undef HWLOC_SYM_PREFIX
#undef HWLOC_SYM_PREFIX_CAPS
#define HWLOC_SYM_TRANSFORM 1
#define HWLOC_SYM_PREFIX tapa_
#define HWLOC_SYM_PREFIX_CAPS TAPA_
#include <hwloc.h>

#include <string>

namespace tapa {

/// Loads libhwloc, or takes the one that is in the process already. Returns why it cannot be used, empty when
/// it can. Precondition of all functions of hwloc: this returned an empty string. It stays loaded.
[[nodiscard]] const std::string& hwloc_problem();

}  // namespace tapa
