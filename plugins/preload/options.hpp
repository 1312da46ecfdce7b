/// @file
/// What the drop-in itself reads from the environment. libtapa's table of options has a row for each, so that
/// tapa-info lists them and wrong values are complained about there; here a wrong value is the default.
#pragma once

namespace tapa::preload {

/// False with TAPA_ENABLE=0: every call goes to MPI at once, and nothing of ours is loaded or run.
[[nodiscard]] bool enabled();

/// TAPA_ENABLE=alloc-mem: whether MPI_Alloc_mem gives memory that the other ranks of the node can map.
[[nodiscard]] bool shares_alloc_mem();

/// The second number of TAPA_TIMEOUT: seconds that MPI_Init waits for the drop-in of the other ranks, 0 for
/// ever.
[[nodiscard]] double agree_timeout();

/// Writes one line to stderr.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The same, when TAPA_LOG asks for information.
void log_info(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tapa::preload
