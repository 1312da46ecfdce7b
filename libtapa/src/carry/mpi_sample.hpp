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

/// Runs it with the same bytes between the same ranks, as dense blocks of memory of its own: the call's
/// result never depends on it. Seconds; nothing where that would be too much memory, or some rank has none.
/// The ranks begin together, and go on together, so that waiting for a late rank counts for neither.
/// Collective over the program's `comm`, in the call's turn. Throws CallError.
[[nodiscard]] std::optional<double> sample_mpi(const Exchange& exchange, MPI_Comm comm);

}  // namespace tapa
