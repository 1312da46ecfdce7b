/// @file
/// What rank 0 decides for all: options, the tuning file, the topology asked for. One string, so that it
/// travels with what the ranks tell each other anyway.
#pragma once

#include <mpi.h>

#include <string>

#include "comm/options.hpp"

namespace tapa {

/// The same as text, as it is on rank 0.
struct SharedOptions {
  Options options;
  std::string tuning;    ///< text of the tuning file, or empty
  std::string topology;  ///< what option "topology" asks for, as a topology file, or empty
  std::string learnt;    ///< what earlier runs have found, for parse_learnt(), or empty
};

/// This process's, for the ranks of `comm`; or why there are none, which unpack_options() then throws.
[[nodiscard]] std::string pack_options(MPI_Comm comm);

/// Throws SetupError.
[[nodiscard]] SharedOptions unpack_options(const std::string& packed);

}  // namespace tapa
