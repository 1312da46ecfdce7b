/// @file
/// Where the calls that were taken over go: libtapa, loaded when the first one comes, or the MPI below.
#pragma once

namespace tapa::preload {

/// Address of a function of the MPI library that the program uses, as if this library were not there.
/// Never null: a program that calls MPI without having one loaded is ended with a message.
[[nodiscard]] void* mpi_function(const char* name);

/// Address of a TAPA_* function, or null when the calls must stay with MPI (libtapa cannot be loaded, the
/// reason is logged once). Loads libtapa on first use, so that processes that make no all-to-all do not pay
/// for it; a copy that the program has loaded itself is the one that is used. Ends the program with a message
/// when its MPI is not the one that this library was built for: handles differ, so no call could be passed
/// on.
[[nodiscard]] void* tapa_function(const char* name);

/// Writes one line to stderr when TAPA_LOG asks for information.
void log_info(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tapa::preload
