/// @file
/// Who takes buffers in GPU memory in this process. Local.
#pragma once

namespace tapa {

/// Whether this libtapa has the device engine.
[[nodiscard]] bool has_device_engine();

/// Whether MPI takes buffers in GPU memory, by what it says itself. Local.
[[nodiscard]] bool mpi_takes_device_memory();

}  // namespace tapa
