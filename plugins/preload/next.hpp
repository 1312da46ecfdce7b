/// @file
/// What stands behind the drop-in: the MPI library, and tools that profile it. MPI_X is passed on to the next
/// MPI_X, PMPI_X to the next PMPI_X, as if the drop-in were not there; so a tool behind it sees what the
/// program calls, and one before it reaches MPI through it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "text.hpp"

namespace tapa::preload {

/// Address of `name` in the objects behind the drop-in, or null.
[[nodiscard]] void* find_next(const char* name);

/// The same; a program that calls MPI without having one loaded is ended with a message.
[[nodiscard]] void* next(const char* name);

/// Address of an object of the MPI library, such as the one behind MPI_COMM_WORLD; a program may have it as
/// its own (copy relocation), and MPI then uses that one. Ends the program as next() does.
[[nodiscard]] void* object_of_mpi(const char* name);

/// Whether an MPI library stands behind the drop-in. A library of stubs for sequential programs has no PMPI_
/// names: it is left alone.
[[nodiscard]] bool has_mpi();

/// Whether a call of `name` is passed on unseen to `address`, which is next(name): the drop-in is off, MPI is
/// only stubs, or `name` is an MPI_ name and `address` a tool's. That tool calls PMPI_X, which is where the
/// drop-in then takes the call over. (One that calls the MPI_X behind it instead reaches MPI.)
[[nodiscard]] bool passes(const char* name, const void* address);

/// The MPI_ names of all-to-alls.
constexpr std::size_t kFunctions = 72;
using FunctionNames = std::array<Text<31>, kFunctions>;
[[nodiscard]] const FunctionNames& function_names();

/// Where the program's calls of a function go on this rank.
enum class Taker : std::uint8_t {
  drop_in,  ///< also where the MPI has no such function
  tool,     ///< one behind the drop-in: they pass it
  others,   ///< past the drop-in, which was built for an MPI without the function
};
[[nodiscard]] std::array<Taker, kFunctions> takers();

}  // namespace tapa::preload
