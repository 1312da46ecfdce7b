/// @file
/// What functions and communicators are called in reports and explanations.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

namespace tapa {

/// A function's name as this program calls it.
[[nodiscard]] std::string name_here(std::string_view function);
/// The name that the program gave a communicator, or its ranks; "" where nothing is to be reported. Local.
[[nodiscard]] std::string name_for_report(MPI_Comm comm);

}  // namespace tapa
