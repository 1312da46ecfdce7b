/// @file
/// The report at the end of a job, from what its ranks have counted.
#pragma once

namespace tapa {

/// Prints it in MPI_Finalize. Where rank 0 of the process's world has asked for it, collective over
/// MPI_COMM_WORLD: rank 0 prints all. Else each rank prints what it knows, and keeps nobody waiting.
void print_report() noexcept;

}  // namespace tapa
