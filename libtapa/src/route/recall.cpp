#include "route/recall.hpp"

#include "run/device_memory.hpp"
#include "run/type_layout.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// Of a thread. Looking it up takes time, so it is one.
struct Recall {
  Recent<KnownComm> comms;
  LastBuffers buffers;  // of calls that are not remembered
};
thread_local constinit Recall recall{};

constexpr auto holds = [](const auto& known) { return known.holds(); };

KnownComm* known_comm(MPI_Comm comm) {
  return recall.comms.find([&](const KnownComm& known) { return known.comm == comm && known.holds(); });
}

/// `freed`: before anything was found out.
KnownComm& note(MPI_Comm comm, std::uint64_t freed) {
  if (KnownComm* const known = known_comm(comm)) return *known;
  return recall.comms.put({true, comm, freed, nullptr, false, {}, {}}, holds);
}

/// `freed`: freed_types before anything was found out; `sendtype`: as such calls are compared.
void keep(KnownComm& known, const Arguments& a, bool passes, MPI_Datatype sendtype, const Uniform& blocks,
          std::uint64_t freed) {
  const bool permanent = is_permanent(a.recv.type) && (a.in_place() || is_permanent(a.send.type));
  const KnownCall call{true,         a.form,   passes,      a.in_place(), permanent, a.send.count,
                       a.recv.count, sendtype, a.recv.type, freed,        blocks,    {}};
  known.calls.put(call, holds);
}

/// A GPU may be in use since the last call.
bool in_host_memory(const Arguments& a, KnownCall& known, const CommState& state) {
  if (!known.buffers.may_be_of_gpu(a.send.buffer, a.recv.buffer) || state.rules().trusts_buffers) return true;
  const auto on_device = [](const void* buffer, MPI_Aint first) {
    return is_device_memory(address_at(buffer, first));
  };
  return !on_device(a.recv.buffer, known.blocks.recv_first) &&
         (known.in_place || !on_device(a.send.buffer, known.blocks.send_first));
}

}  // namespace

bool LastBuffers::may_be_of_gpu(const void* send, const void* recv) {
  constexpr unsigned every = 8;
  const bool same = send == send_ && recv == recv_ && send != MPI_BOTTOM && recv != MPI_BOTTOM;
  if (same && ++calls_ % every != 0) return gpu_was_in_use();
  send_ = send;
  recv_ = recv;
  return gpu_in_use();
}

CommState* remembered_state(MPI_Comm comm) {
  const KnownComm* const known = known_comm(comm);
  return known != nullptr ? known->state : nullptr;
}

CommState* state_at(MPI_Comm comm, std::shared_ptr<CommState> (*get)(MPI_Comm)) {
  const std::uint64_t before = freed_communicators.load(std::memory_order_acquire);
  CommState* const state = get(comm).get();
  if (state != nullptr) note(comm, before).state = state;
  return state;
}

bool passes(Form form, const void* sendbuf, MPI_Datatype sendtype, const void* recvbuf, MPI_Datatype recvtype,
            MPI_Comm comm) {
  KnownComm* const known = known_comm(comm);
  if (known == nullptr) return false;
  const MPI_Datatype sent = sendbuf == MPI_IN_PLACE ? recvtype : sendtype;
  KnownCall* const call = known->calls.find([&](const KnownCall& one) {
    return one.passes && one.form == form && one.sendtype == sent && one.recvtype == recvtype && one.holds();
  });
  return call != nullptr && !call->buffers.may_be_of_gpu(sendbuf, recvbuf);
}

void remember_forwarded(const Arguments& a) {
  KnownComm* const known = known_comm(a.comm);
  if (known == nullptr || known->state == nullptr || !known->state->given_up) return;
  if (a.form == Form::w || a.large || gpu_was_in_use()) return;
  if (report_is_wanted()) return;  // which counts each call
  const std::uint64_t freed = freed_types.load(std::memory_order_acquire);
  const MPI_Datatype sent = a.in_place() ? a.recv.type : a.send.type;
  for (const MPI_Datatype type : {sent, a.recv.type}) {
    if (type == MPI_DATATYPE_NULL) return;        // an error, for MPI to find
    if (!type_info(type).always_dense()) return;  // MPI may get long blocks wrong
  }
  if (!passes(a.form, a.send.buffer, a.send.type, a.recv.buffer, a.recv.type, a.comm))
    keep(*known, a, true, sent, {}, freed);
}

bool passes_nonblocking(const void* sendbuf, const void* recvbuf, MPI_Comm comm) {
  KnownComm* const known = known_comm(comm);
  return known != nullptr && known->waits && !known->nonblocking.may_be_of_gpu(sendbuf, recvbuf);
}

void remember_waiting(MPI_Comm comm) {
  if (report_is_wanted()) return;  // which counts each call
  note(comm, freed_communicators.load(std::memory_order_acquire)).waits = true;
}

const Uniform* remembered_blocks(const Arguments& a, CommState*& state) {
  // Buffers are looked at as check_arguments() does, but that null ones are left to it.
  if (a.form != Form::uniform || a.send.buffer == a.recv.buffer || a.send.buffer == nullptr ||
      a.recv.buffer == nullptr || a.recv.buffer == MPI_IN_PLACE)
    return nullptr;
  KnownComm* const known = known_comm(a.comm);
  if (known == nullptr) return nullptr;
  KnownCall* const call = known->calls.find([&](const KnownCall& one) {
    return a.recv.count == one.recvcount && a.recv.type == one.recvtype && a.send.count == one.sendcount &&
           a.send.type == one.sendtype && a.in_place() == one.in_place && !one.passes && one.holds();
  });
  if (call == nullptr || !in_host_memory(a, *call, *known->state)) return nullptr;
  state = known->state;
  return &call->blocks;
}

void remember_blocks(const Arguments& a, const CommState& state, const Uniform& blocks) {
  KnownComm* const known = known_comm(a.comm);
  CommState* same = nullptr;
  if (known == nullptr || known->state != &state || remembered_blocks(a, same) != nullptr) return;
  keep(*known, a, false, a.send.type, blocks, freed_types.load(std::memory_order_acquire));
}

bool may_be_of_gpu(const Arguments& a) {
  return recall.buffers.may_be_of_gpu(a.send.buffer, a.recv.buffer);
}

}  // namespace tapa
