#include "api/passing.hpp"

#include <array>
#include <cstdint>
#include <optional>

#include "comm/guest.hpp"
#include "comm/newcomer.hpp"
#include "run/datatype.hpp"
#include "run/device_memory.hpp"

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
  CommState* state = nullptr;  // lives until a communicator is freed
  CallKind kind;
  std::uint64_t freed;       // freed_handles then
  std::size_t element_size;  // of what is received, in bytes
  LastBuffers buffers;
};

/// The communicator of the last nonblocking call that was not set up.
struct NotReady {
  bool known = false;
  MPI_Comm comm;
  std::uint64_t freed;  // freed_handles then
  LastBuffers buffers;
};

/// Of a thread. Looking it up takes time, so it is one.
struct PassingCalls {
  std::array<Passing, 4> calls;  // the last few kinds
  std::size_t next = 0;          // to be overwritten
  NotReady not_ready;
};
thread_local constinit PassingCalls passing_calls{};

std::uint64_t freed_so_far() {
  return freed_handles.load(std::memory_order_acquire);
}

Passing* find(PassingCalls& mine, const CallKind& kind) {
  const std::uint64_t freed = freed_so_far();
  for (Passing& known : mine.calls) {
    if (known.state != nullptr && known.kind == kind && known.freed == freed) return &known;
  }
  return nullptr;
}

std::optional<std::size_t> bytes_of_block(const Passing& known, MPI_Count count) {
  if (known.kind.form != Form::uniform || count < 0) return std::nullopt;
  return static_cast<std::size_t>(count) * known.element_size;
}

}  // namespace

CommState* passes_for(const CallKind& kind, const void* sendbuf, const void* recvbuf, MPI_Count recvcount) {
  Passing* const known = find(passing_calls, kind);
  if (known == nullptr || known->buffers.may_be_of_gpu(sendbuf, recvbuf)) return nullptr;
  const auto estimate = Newcomer::estimate(bytes_of_block(*known, recvcount), known->state->size());
  return known->state->passes(estimate) ? known->state : nullptr;
}

void remember_passing(const Arguments& arguments, CommState& state) {
  if (arguments.form == Form::w || arguments.large || gpu_was_in_use()) return;
  if (report_is_wanted()) return;  // which counts each call
  const CallKind kind = kind_of(arguments.form, arguments.send.buffer, arguments.send.type,
                                arguments.recv.type, arguments.comm);
  for (const MPI_Datatype type : {kind.sendtype, kind.recvtype}) {
    if (type == MPI_DATATYPE_NULL) return;        // an error, for MPI to find
    if (!type_info(type).always_dense()) return;  // MPI may get long blocks wrong
  }
  PassingCalls& mine = passing_calls;
  if (find(mine, kind) != nullptr) return;
  mine.calls[mine.next] = {&state, kind, freed_so_far(), type_info(kind.recvtype).size, {}};
  mine.next = (mine.next + 1) % mine.calls.size();
}

bool passes_nonblocking(const void* sendbuf, const void* recvbuf, MPI_Comm comm) {
  NotReady& known = passing_calls.not_ready;
  return known.known && comm == known.comm && known.freed == freed_so_far() &&
         !known.buffers.may_be_of_gpu(sendbuf, recvbuf);
}

void remember_not_ready(MPI_Comm comm) {
  if (report_is_wanted()) return;  // which counts each call
  passing_calls.not_ready = {true, comm, freed_so_far(), {}};
}

}  // namespace tapa
