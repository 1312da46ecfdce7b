/// @file
/// What a thread remembers of its last calls: to find it out again would take longer than a short exchange.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "route/recent.hpp"
#include "route/route.hpp"
#include "run/arguments.hpp"
#include "run/freed_handles.hpp"

namespace tapa {

/// The buffers of a call, and of the next one like it.
class LastBuffers {
 public:
  /// Whether these may be a GPU's memory. The same ones as before are the host's as they were, but as memory
  /// may come again from a driver they are looked at now and then: asking the loader takes as long as all
  /// else here. MPI_BOTTOM says nothing of where blocks are.
  [[nodiscard]] bool may_be_of_gpu(const void* send, const void* recv);

 private:
  const void* send_ = nullptr;
  const void* recv_ = nullptr;
  unsigned calls_ = 0;
};

/// A call with dense blocks, as far as it is like others of the same communicator.
struct KnownCall {
  [[nodiscard]] bool holds() const {
    return known && (permanent || freed_types == tapa::freed_types.load(std::memory_order_acquire));
  }

  bool known = false;
  Form form;
  bool passes;     ///< MPI gets all such calls as they were made, whatever their counts are
  bool in_place;   ///< else:
  bool permanent;  ///< its datatypes are MPI's own
  MPI_Count sendcount;
  MPI_Count recvcount;
  MPI_Datatype sendtype;  ///< that of the received blocks for calls in place that pass
  MPI_Datatype recvtype;
  std::uint64_t freed_types;
  Uniform blocks;
  LastBuffers buffers;
};

/// A communicator.
struct KnownComm {
  [[nodiscard]] bool holds() const {
    return known && freed == freed_communicators.load(std::memory_order_acquire);
  }

  bool known = false;
  MPI_Comm comm;
  std::uint64_t freed;      ///< freed_communicators then
  CommState* state;         ///< null: none hangs on it
  bool waits;               ///< it is not set up: nonblocking calls are MPI's
  LastBuffers nonblocking;  ///< of these
  Recent<KnownCall> calls;
};

/// The state of a communicator of one of this thread's last calls, without looking at attributes; else null.
[[nodiscard]] CommState* remembered_state(MPI_Comm comm);
/// Where it is not remembered: what `get`, of registry.hpp, finds or makes, which is remembered; or null.
[[nodiscard]] CommState* state_at(MPI_Comm comm, std::shared_ptr<CommState> (*get)(MPI_Comm));

/// Whether a blocking call is MPI's as it was made, as all like it are.
[[nodiscard]] bool passes(Form form, const void* sendbuf, MPI_Datatype sendtype, const void* recvbuf,
                          MPI_Datatype recvtype, MPI_Comm comm);
/// MPI gets this call as it was made, and all like it. Kinds that may not always be so are not remembered.
void remember_forwarded(const Arguments& arguments);

/// Whether a nonblocking call without large counts is MPI's as it was made: its communicator is not set up.
[[nodiscard]] bool passes_nonblocking(const void* sendbuf, const void* recvbuf, MPI_Comm comm);
/// A nonblocking call was MPI's, as its communicator is not set up.
void remember_waiting(MPI_Comm comm);

/// The equal dense blocks in host memory of a blocking call that differs from an earlier one in its buffers
/// at most, so needs no check; else null. `state`: the communicator's.
[[nodiscard]] const Uniform* remembered_blocks(const Arguments& arguments, CommState*& state);
void remember_blocks(const Arguments& arguments, const CommState& state, const Uniform& blocks);

/// Whether blocks of a call may be in GPU memory.
[[nodiscard]] bool may_be_of_gpu(const Arguments& arguments);

}  // namespace tapa
