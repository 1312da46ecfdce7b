#include "api/passing.hpp"

#include <cstdint>

#include "comm/recent.hpp"
#include "run/datatype.hpp"
#include "run/device_memory.hpp"
#include "run/freed_handles.hpp"
#include "run/type_layout.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// The buffers of the last call of a kind.
class LastBuffers {
 public:
  /// Whether these may be a GPU's memory. The same ones as before are the host's as they were then; memory
  /// that was freed may come again from a driver, so now and then they are looked at all the same: asking the
  /// loader whether there is a driver takes as long as all else here. MPI_BOTTOM says nothing of where blocks
  /// are.
  [[nodiscard]] bool may_be_of_gpu(const void* send, const void* recv) {
    constexpr unsigned every = 8;
    const bool same = send == send_ && recv == recv_ && send != MPI_BOTTOM && recv != MPI_BOTTOM;
    if (same && ++calls_ % every != 0) return gpu_was_in_use();
    send_ = send;
    recv_ = recv;
    return gpu_in_use();
  }

 private:
  const void* send_ = nullptr;
  const void* recv_ = nullptr;
  unsigned calls_ = 0;
};

/// What was found out about a kind of call.
struct Passing {
  [[nodiscard]] bool holds() const { return known && freed.hold(permanent); }

  bool known = false;
  CallKind kind;
  FreedHandles freed;
  bool permanent;  // its datatypes are MPI's own
  LastBuffers buffers;
};

/// A communicator of a nonblocking call that was not set up.
struct NotReady {
  [[nodiscard]] bool holds() const {
    return known && freed == freed_communicators.load(std::memory_order_acquire);
  }

  bool known = false;
  MPI_Comm comm;
  std::uint64_t freed;  // freed_communicators then
  LastBuffers buffers;
};

/// Of a thread. Looking it up takes time, so it is one.
struct PassingCalls {
  Recent<Passing, 8> calls;
  Recent<NotReady, 4> not_ready;
};
thread_local constinit PassingCalls passing_calls{};

std::uint64_t key_of(const CallKind& kind) {
  return number_of(kind.comm) + number_of(kind.recvtype) + static_cast<std::uint64_t>(kind.form);
}

Passing* find(PassingCalls& mine, const CallKind& kind) {
  return mine.calls.find(key_of(kind),
                         [&](const Passing& known) { return known.kind == kind && known.holds(); });
}

NotReady* find_not_ready(PassingCalls& mine, MPI_Comm comm) {
  return mine.not_ready.find(number_of(comm),
                             [&](const NotReady& known) { return known.comm == comm && known.holds(); });
}

}  // namespace

bool passes(const CallKind& kind, const void* sendbuf, const void* recvbuf) {
  Passing* const known = find(passing_calls, kind);
  return known != nullptr && !known->buffers.may_be_of_gpu(sendbuf, recvbuf);
}

void remember_passing(const Arguments& arguments, const CommState& state) {
  if (!state.given_up()) return;
  if (arguments.form == Form::w || arguments.large || gpu_was_in_use()) return;
  if (report_is_wanted()) return;  // which counts each call
  const FreedHandles before = FreedHandles::now();
  const CallKind kind = kind_of(arguments.form, arguments.send.buffer, arguments.send.type,
                                arguments.recv.type, arguments.comm);
  for (const MPI_Datatype type : {kind.sendtype, kind.recvtype}) {
    if (type == MPI_DATATYPE_NULL) return;        // an error, for MPI to find
    if (!type_info(type).always_dense()) return;  // MPI may get long blocks wrong
  }
  PassingCalls& mine = passing_calls;
  if (find(mine, kind) != nullptr) return;
  const bool permanent = is_permanent(kind.sendtype) && is_permanent(kind.recvtype);
  mine.calls.put(key_of(kind), {true, kind, before, permanent, {}},
                 [](const Passing& known) { return known.holds(); });
}

bool passes_nonblocking(const void* sendbuf, const void* recvbuf, MPI_Comm comm) {
  NotReady* const known = find_not_ready(passing_calls, comm);
  return known != nullptr && !known->buffers.may_be_of_gpu(sendbuf, recvbuf);
}

void remember_not_ready(MPI_Comm comm) {
  if (report_is_wanted()) return;  // which counts each call
  if (find_not_ready(passing_calls, comm) != nullptr) return;
  passing_calls.not_ready.put(number_of(comm),
                              {true, comm, freed_communicators.load(std::memory_order_acquire), {}},
                              [](const NotReady& known) { return known.holds(); });
}

}  // namespace tapa
