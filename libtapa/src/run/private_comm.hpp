/// @file
/// Communicators that the library makes for itself.
#pragma once

#include <mpi.h>

namespace tapa {

/// A communicator of the ranks of `of` in their order, with MPI_ERRORS_RETURN; collective over them, the
/// caller frees it. Not a duplicate: that would call the user's functions that copy attributes. Take the
/// oldest communicator that there is: Open MPI makes those of all threads in the order of what they are made
/// from, so one that is made from a new one waits for whatever other threads are making. Returns MPI's code.
int make_private_comm(MPI_Comm of, MPI_Comm* made);
/// The same from `parent`, one of the library's own that has these ranks and maybe more: where MPI cannot
/// make it, the error handler of `of` is not called. `tag`: of no other that these ranks make at the same
/// time.
int make_private_comm(MPI_Comm of, MPI_Comm parent, int tag, MPI_Comm* made);

/// One of this rank alone, with MPI_ERRORS_RETURN, made when it is first asked for: to pack, and to look at
/// types. Throws CallError. Thread-safe.
[[nodiscard]] MPI_Comm alone_comm();
/// MPI ends.
void free_alone_comm();

}  // namespace tapa
