/// @file
/// Whether the MPI that a program runs can be served by a drop-in that was built for another one. Pure.
#pragma once

#include <string_view>

#include "text.hpp"

namespace tapa::preload {

/// Whose handles and constants an MPI has. `relative`: shares MPICH's (Intel MPI, MVAPICH, Cray MPICH).
/// `standard`: those of the MPI 5 standard, which libraries of any maker may have beside their own
/// (libmpi_abi.so); the series is theirs.
enum class Family { unknown, open_mpi, mpich, relative, standard };

struct MpiSeries {
  Family family = Family::unknown;
  int major = 0;
  int minor = 0;
  friend bool operator==(const MpiSeries&, const MpiSeries&) = default;
};

enum class Fit {
  same,        ///< the series of the build
  compatible,  ///< another one, with the same binary interface
  refused,     ///< another one, whose interface may differ: its all-to-alls stay its own
  foreign,     ///< other handles altogether
};

struct Judgement {
  Fit fit = Fit::foreign;
  Line why;  ///< one sentence, empty for `same`
};

/// Reads what MPI_Get_library_version gives.
[[nodiscard]] MpiSeries parse_library_version(std::string_view text);

/// Open MPI keeps C's binary interface within a major version, and promises that programs built with 4.x run
/// with 5.x, not the reverse. MPICH keeps it from 3.x to 5.x (libmpi.so.12); a build for one of them needs
/// functions that earlier ones do not have. `running`: what MPI_Get_library_version gives; `standard`:
/// whether the library has the handles of the MPI 5 standard (MPI_Abi_get_version gives a version).
[[nodiscard]] Judgement judge_mpi(const MpiSeries& built, std::string_view running, bool standard = false);

}  // namespace tapa::preload
