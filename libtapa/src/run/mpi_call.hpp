/// @file
/// Hands a call to MPI's own all-to-all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "run/arguments.hpp"

namespace tapa {

/// Memory that a nonblocking call handed to MPI needs until it completes.
struct MpiCallStorage {
  std::vector<int> numbers;
};

/// Calls MPI's all-to-all of the same form on `comm`: blocking when `request` is null, else nonblocking.
/// `ranks` is the number of peers (of the remote group for intercommunicators). Large counts that MPI-3
/// cannot express are an CallError. Returns MPI's code.
int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, MPI_Request* request,
             MpiCallStorage& storage);

/// Whether call_mpi_bytes() can be given such blocks.
[[nodiscard]] constexpr bool countable(std::size_t bytes) {
  return bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max());
}

/// MPI's blocking all-to-all of equal blocks of countable() size that lie one after the other;
/// `send` may be MPI_IN_PLACE. As bytes, because MPI's algorithms may mix up the layouts of two datatypes.
int call_mpi_bytes(const void* send, void* recv, std::size_t bytes, MPI_Comm comm);

/// Makes MPI's own persistent all-to-all of the same form. Where this MPI has none, or none with large
/// counts, that is an CallError. Returns MPI's code.
int call_mpi_init(const Arguments& arguments, MPI_Request* request);

}  // namespace tapa
