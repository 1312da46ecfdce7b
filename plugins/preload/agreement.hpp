/// @file
/// Whether libtapa carries out all-to-alls is one choice of all ranks of a job, made where all of them are:
/// in MPI_Init.
#pragma once

namespace tapa::preload {

enum class Verdict {
  open,     ///< MPI_Init has not been called, or MPI is used by sessions alone: calls go to MPI
  libtapa,  ///< all ranks have agreed on libtapa
  mpi,      ///< they go to MPI: all ranks have agreed on that, or the MPI is none that this drop-in serves
};

/// What was agreed.
[[nodiscard]] Verdict verdict();

/// Whether an all-to-all, by its MPI_ or PMPI_ name, stays with MPI all the same, on all ranks: calls of it
/// go past the drop-in on some. To be asked when the verdict is `libtapa`.
[[nodiscard]] bool stays_with_mpi(const char* name);

/// To be called by every rank when MPI's own initialization has returned: one small reduction over
/// MPI_COMM_WORLD, by its PMPI_ names; then libtapa is loaded and set up. When some ranks have no drop-in, or
/// one of another version, the job is ended with a message that names them, after the seconds of
/// TAPA_TIMEOUT. When libtapa's file is missing somewhere, or the MPI is of a series that is refused,
/// all-to-all stays with MPI on all ranks, and so do the functions that the drop-in takes over on some ranks
/// only; rank 0 says so. An MPI with other handles than the build's is left alone, with a message, but for
/// the standard's interface where the libtapa for it lies beside the drop-in. Further calls do nothing.
void agree();

/// Ends the job with a message.
[[noreturn]] void end_job(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tapa::preload
