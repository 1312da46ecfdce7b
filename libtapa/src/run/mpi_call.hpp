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

/// The arguments as this MPI takes them: where it has no large counts these are narrowed, into `storage`.
/// `ranks` is the number of peers (of the remote group for intercommunicators). Large counts that MPI-3
/// cannot express are a CallError.
[[nodiscard]] Arguments for_mpi(const Arguments& arguments, int ranks, MpiCallStorage& storage);

/// Calls MPI's all-to-all of the same form on `comm`, with arguments of for_mpi(): blocking when `request` is
/// null, else nonblocking. Returns MPI's code. Holds nothing while MPI runs: its error handler may not
/// return.
int call_mpi(const Arguments& arguments, MPI_Comm comm, MPI_Request* request);

/// Whether call_mpi_bytes() can be given such blocks.
[[nodiscard]] constexpr bool countable(std::size_t bytes) {
  return bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max());
}

/// MPI's blocking all-to-all of equal blocks of countable() size that lie one after the other;
/// `send` may be MPI_IN_PLACE. As bytes, because MPI's algorithms may mix up the layouts of two datatypes.
int call_mpi_bytes(const void* send, void* recv, std::size_t bytes, MPI_Comm comm);

/// Throws CallError where this MPI has no persistent all-to-all, or none with these counts.
void require_mpi_init(const Arguments& arguments);

/// Makes MPI's own persistent all-to-all of the same form. Returns MPI's code. Holds nothing, as call_mpi().
int call_mpi_init(const Arguments& arguments, MPI_Request* request);

}  // namespace tapa
