/// @file
/// The options of this process's environment, and how the ranks agree on those of rank 0.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "world/options.hpp"

namespace tapa {

/// Unknown names are warned about once. Throws CallError for wrong values.
[[nodiscard]] Options environment_options();

/// And those of the tuning file that they name. Throws std::invalid_argument.
[[nodiscard]] Options with_tuning_file(Options options);

/// As they were when first asked for; defaults where some are wrong. Until ranks agree there are only these.
[[nodiscard]] const Options& own_options();

/// Whether these ask for the report, which then counts forwarded calls too.
[[nodiscard]] inline bool report_is_wanted() {
  return own_options().settings().report != Reporting::off;
}

/// What rank 0 decides for all.
struct SharedOptions {
  std::shared_ptr<const Options> options;
  std::string tuning;    ///< text of the tuning file, or empty where nothing was measured
  std::string topology;  ///< what option "topology" asks for, as a topology file, or empty
};

/// This process's for the ranks of `comm`, as one string; or why there are none, as unpack_options() throws.
[[nodiscard]] std::string pack_options(MPI_Comm comm);

/// Throws SetupError.
[[nodiscard]] SharedOptions unpack_options(const std::string& packed);

}  // namespace tapa
