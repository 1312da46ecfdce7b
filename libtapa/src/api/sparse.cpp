// The entry points of the sparse exchange, which goes through memory that all ranks share, else by messages.
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "comm/call_notes.hpp"
#include "memory/reserve.hpp"
#include "route/check_arguments.hpp"
#include "route/recall.hpp"
#include "run/datatype.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/poll_to_end.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"

using namespace tapa;

/// What the handle points to.
struct TAPA_Received_s {
  std::vector<int> sources;
  std::vector<MPI_Count> counts;
  std::unique_ptr<std::byte[]> data;
};

namespace {

constexpr const char* kFunction = "TAPA_Sparse_exchange";

/// A call as it was made.
struct SparseCall {
  const void* sendbuf;
  int ndestinations;
  const int* destinations;
  const MPI_Count* sendcounts;
  MPI_Datatype datatype;
  const TAPA_Received* received;
};

/// Bytes of an element. Throws CallError.
std::size_t element_bytes(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL)
    refuse(MPI_ERR_TYPE, "datatype is MPI_DATATYPE_NULL, expected a datatype");
  const TypeInfo info = type_info(datatype);
  if (!info.committed) refuse(MPI_ERR_TYPE, "datatype is not committed, expected one after MPI_Type_commit");
  if (info.size == 0 || !info.always_dense() || info.first != 0)
    refuse(MPI_ERR_TYPE, "datatype has ", info.size, " bytes of data in ", info.extent, " from byte ",
           info.first, " on, expected one without gaps from byte 0 on");
  return info.size;
}

void check_arrays(const SparseCall& call) {
  if (call.received == nullptr)
    refuse(MPI_ERR_ARG, "received is null, expected the address of a TAPA_Received");
  if (call.ndestinations < 0)
    refuse(MPI_ERR_COUNT, "ndestinations is ", call.ndestinations, ", expected 0 or more");
  if (call.ndestinations > 0 && (call.destinations == nullptr || call.sendcounts == nullptr)) {
    refuse(MPI_ERR_ARG, call.destinations == nullptr ? "destinations" : "sendcounts",
           " is null, expected an array of ", call.ndestinations);
  }
  if (call.sendbuf == MPI_IN_PLACE) refuse(MPI_ERR_BUFFER, "sendbuf is MPI_IN_PLACE, expected a buffer");
}

std::string element_of(const char* array, int i) {
  return words(array, "[", i, "]");
}

/// The bytes of the i-th message.
std::size_t message_bytes(const SparseCall& call, int i, std::size_t element) {
  const MPI_Count count = call.sendcounts[i];
  if (count < 0) refuse(MPI_ERR_COUNT, element_of("sendcounts", i), " is ", count, ", expected 0 or more");
  if (static_cast<std::uint64_t>(count) > static_cast<std::uint64_t>(PTRDIFF_MAX) / element)
    refuse(MPI_ERR_COUNT, element_of("sendcounts", i), " is ", count,
           ", expected no more than memory can hold");
  if (count > 0 && call.sendbuf == nullptr)
    refuse(MPI_ERR_BUFFER, "sendbuf is null, expected a buffer: ", element_of("sendcounts", i), " is ",
           count);
  return static_cast<std::size_t>(count) * element;
}

[[noreturn]] void refuse_duplicate(const SparseCall& call, int i) {
  const auto first = std::find(call.destinations, call.destinations + i, call.destinations[i]);
  refuse(MPI_ERR_RANK, element_of("destinations", i), " is ", call.destinations[i], " as ",
         element_of("destinations", static_cast<int>(first - call.destinations)),
         ", expected each rank once at most");
}

/// Adds the messages of a call. Throws CallError where it is wrong.
void add_messages(const SparseCall& call, const CommState& state, SparseExchange& exchange) {
  check_arrays(call);
  const std::size_t element = element_bytes(call.datatype);
  if (!state.rules().trusts_buffers && gpu_in_use())
    require_host_memory(call.sendbuf, "sendbuf", "sparse exchanges do not take it");
  const auto* next = static_cast<const std::byte*>(call.sendbuf);
  for (int i = 0; i < call.ndestinations; ++i) {
    const int to = call.destinations[i];
    if (to < 0 || to >= state.size)
      refuse(MPI_ERR_RANK, element_of("destinations", i), " is ", to, ", expected 0 to ", state.size - 1);
    const std::size_t bytes = message_bytes(call, i, element);
    if (!exchange.add(to, {next, bytes})) refuse_duplicate(call, i);
    if (bytes > 0) next += bytes;
  }
}

void require_all_right(const SparseExchange& exchange) {
  const std::uint64_t wrong = exchange.wrong_ranks();
  if (wrong == 0) return;
  refuse(MPI_ERR_OTHER,
         (wrong == 1 ? "rank " + std::to_string(exchange.wrong_rank()) : std::to_string(wrong) + " ranks") +
             " made the call with wrong arguments or without memory for it");
}

/// What has come, in the order of sources. Throws CallError.
TAPA_Received packed(const SparseInbox& inbox, std::size_t element) {
  auto received = std::make_unique<TAPA_Received_s>();
  received->data = memory::for_blocks(inbox.bytes());
  std::byte* to = received->data.get();
  for (const std::size_t source : inbox.sources()) {
    const auto message = inbox.from(source);
    if (message.size() % element != 0)
      refuse(MPI_ERR_TRUNCATE, "the message from rank ", source, " has ", message.size(),
             " bytes, expected a multiple of datatype's ", element);
    received->sources.push_back(static_cast<int>(source));
    received->counts.push_back(static_cast<MPI_Count>(message.size() / element));
    to = std::ranges::copy(message, to).out;
  }
  return received.release();
}

/// Alike on all ranks.
bool goes_through_memory(CommState& state) {
  const Rules& rules = state.rules();
  return !rules.mpi_is_forced && rules.topology->nodes() == 1 && state.parts()->regions.available();
}

struct Release {
  void operator()(ShmBuffers* buffers) const { buffers->release(); }
};

/// The memory of a communicator's exchanges, when all earlier calls have begun and none uses it any more.
std::unique_ptr<ShmBuffers, Release> claim(CommState& state, Watch& watch) {
  for (;;) {
    {
      const auto parts = state.parts();
      ShmBuffers& common = parts->regions.common();
      if (parts->order.idle() && common.claim()) return std::unique_ptr<ShmBuffers, Release>(&common);
    }
    Progress::relay();
    state.waiter().drive_mpi();
    watch.look([] { return std::string("waits for an earlier call of this communicator"); });
    sched_yield();
  }
}

/// Carries out a communicator's exchange, with the messages added to it. Throws CallError, TransportError.
void run_sparse(CommState& state) {
  const Rules& rules = state.rules();
  SparseExchange& exchange = state.sparse_exchange();
  const std::size_t bytes = exchange.bytes_sent();
  const double began = rules.report != Reporting::off ? PMPI_Wtime() : 0;
  if (rules.report != Reporting::off) note_traffic(exchange.messages(), state.parts()->traffic);
  const bool by_memory = goes_through_memory(state);
  Watch watch(kFunction, rules.timeout);
  const auto finish = [&] {
    poll_to_end(exchange, by_memory, state.waiter(), watch, [&] { return exchange.waits_for(); });
  };
  if (by_memory) {
    const auto buffers = claim(state, watch);
    exchange.begin(*buffers);
    finish();
  } else {
    const int tag = state.parts()->order.sparse_tag();
    exchange.begin(state.space, tag);
    finish();
  }
  if (rules.report == Reporting::off) return;
  note_call(state, kFunction, by_memory ? "memory" : "messages", bytes, PMPI_Wtime() - began);
}

/// All ranks take part, also those whose call is wrong, so that none waits for ever.
TAPA_Received exchange_sparsely(const SparseCall& call, CommState& state) {
  SparseExchange& exchange = state.sparse_exchange();
  exchange.clear();
  std::exception_ptr wrong;
  try {
    add_messages(call, state, exchange);
  } catch (const std::exception&) {
    wrong = std::current_exception();
    exchange.be_wrong();
  }
  run_sparse(state);
  if (wrong) std::rethrow_exception(wrong);
  require_all_right(exchange);
  return packed(exchange.inbox(), element_bytes(call.datatype));
}

void require_received(TAPA_Received received) {
  if (received == TAPA_RECEIVED_NULL)
    refuse(MPI_ERR_ARG, "received is TAPA_RECEIVED_NULL, expected one made by TAPA_Sparse_exchange");
}

}  // namespace

extern "C" {

int TAPA_Sparse_exchange(const void* sendbuf, int ndestinations, const int destinations[],
                         const MPI_Count sendcounts[], MPI_Datatype datatype, MPI_Comm comm,
                         TAPA_Received* received) {
  return guarded(comm, kFunction, [&] {
    CommState* state = remembered_state(comm);
    if (state == nullptr || !state->ready() || world_ends()) state = ready_state(comm).get();
    TAPA_Received const made =
        exchange_sparsely({sendbuf, ndestinations, destinations, sendcounts, datatype, received}, *state);
    *received = made;
  });
}

int TAPA_Received_get(TAPA_Received received, int* nsources, const int** sources, const MPI_Count** counts,
                      const void** data) {
  return guarded(MPI_COMM_NULL, "TAPA_Received_get", [&] {
    require_received(received);
    if (nsources != nullptr) *nsources = static_cast<int>(received->sources.size());
    if (sources != nullptr) *sources = received->sources.data();
    if (counts != nullptr) *counts = received->counts.data();
    if (data != nullptr) *data = received->data.get();
  });
}

int TAPA_Received_free(TAPA_Received* received) {
  return guarded(MPI_COMM_NULL, "TAPA_Received_free", [&] {
    if (received == nullptr) refuse(MPI_ERR_ARG, "received is null, expected the address of a TAPA_Received");
    require_received(*received);
    delete *received;
    *received = TAPA_RECEIVED_NULL;
  });
}

}  // extern "C"
