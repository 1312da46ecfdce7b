/// @file
/// MPI's blocking all-to-all of blocks that are described here, where MPI may mix up the layouts of two
/// datatypes as bytes, which are packed and unpacked by us.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "run/arguments.hpp"

namespace tapa {

/// Which blocks of a call MPI may get wrong where they have gaps.
enum class Mixed : std::uint8_t { none, own, all };

/// Of a call on an intracommunicator. Open MPI up to 4.1.4 mixes up the two layouts of MPI_Alltoall, takes
/// the displacements of one rank's MPI_Alltoallw for elements, and gets a rank's own block wrong from 64 KiB
/// on; calls in place go through buffers of its own. It packs what it sends on the way, which costs less than
/// packing all of it before, so other calls are handed over as they were made. Throws CallError for types
/// that cannot be described.
[[nodiscard]] Mixed mixed_by_mpi(const Arguments& arguments, MPI_Comm comm);

/// Hands a blocking call, whose blocks are `exchange`, to MPI on `comm`: as it was made when `as_made`, when
/// MPI gets it right so, or could not count the bytes; without this rank's own block, which is copied here,
/// where MPI may get that wrong alone; else, and where buffers overlap, in bytes. Returns MPI's code. Which
/// of these is a local matter: whichever it is, the same function of MPI is called and the same bytes move.
[[nodiscard]] int call_mpi(const Arguments& arguments, const Exchange& exchange, MPI_Comm comm, bool as_made);

/// The same for a call whose blocks are not described yet: they are only where that is needed, in `scratch`.
[[nodiscard]] int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, bool as_made,
                           Exchange& scratch);

}  // namespace tapa
