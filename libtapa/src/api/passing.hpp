/// @file
/// The shortest way to MPI, for calls on communicators that stay with it. What they cost beyond MPI's own
/// call the program pays in each of them: of two ranks' shortest calls 100 ns are a quarter.
#pragma once

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// What calls of one kind have in common. Where types are dense MPI gets all of a kind as they were made,
/// whatever the counts are.
struct CallKind {
  MPI_Comm comm;
  Form form;
  MPI_Datatype sendtype;  ///< that of the received blocks for calls in place
  MPI_Datatype recvtype;

  friend bool operator==(const CallKind&, const CallKind&) = default;
};

[[nodiscard]] inline CallKind kind_of(Form form, const void* sendbuf, MPI_Datatype sendtype,
                                      MPI_Datatype recvtype, MPI_Comm comm) {
  return {comm, form, sendbuf == MPI_IN_PLACE ? recvtype : sendtype, recvtype};
}

/// Whether a blocking call is like one that was remembered, MPI's as it was made: nothing of it has to be
/// looked at, nor does any rank expect a word.
[[nodiscard]] bool passes(const CallKind& kind, const void* sendbuf, const void* recvbuf);

/// MPI gets this call as it was made, and all like it. Kinds that may not always be so are not remembered.
void remember_passing(const Arguments& arguments, const CommState& state);

/// Whether a nonblocking call without large counts is MPI's as it was made, as an earlier one of this thread
/// on the communicator was: it is still not set up.
[[nodiscard]] bool passes_nonblocking(const void* sendbuf, const void* recvbuf, MPI_Comm comm);

/// A nonblocking call was MPI's, as its communicator is not set up.
void remember_not_ready(MPI_Comm comm);

}  // namespace tapa
