/// @file
/// MPI's own all-to-all beside a call, for the report.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "run/arguments.hpp"

namespace tapa {

/// Bytes of all blocks.
[[nodiscard]] std::uint64_t total_bytes(const std::vector<Block>& blocks);

/// Runs it with the same bytes between the same ranks, in dense blocks of its own. Seconds; nothing where
/// memory is missing. Ranks begin and go on together, so that waiting for a late one counts for neither.
/// Collective over the program's `comm`, in the call's turn. Throws CallError.
[[nodiscard]] std::optional<double> sample_mpi(const Exchange& exchange, MPI_Comm comm);

}  // namespace tapa
