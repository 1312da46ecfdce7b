/// @file
/// Packing of elements of more bytes than MPI_Pack and MPI_Unpack can count, which is an int's most.
#pragma once

#include <mpi.h>

#include <cstddef>

namespace tapa {

/// Copies an element of `bytes` bytes of data at `from` to dense bytes, by a message of this rank of `comm`,
/// an intracommunicator of the library's own, to itself. Throws CallError.
void pack_long(const void* from, MPI_Datatype type, std::size_t bytes, std::byte* to, MPI_Comm comm);

/// The reverse.
void unpack_long(const std::byte* from, std::size_t bytes, void* to, MPI_Datatype type, MPI_Comm comm);

}  // namespace tapa
