#include "run/mpi_call.hpp"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <limits>
#include <string>

#include "run/error.hpp"
#include "run/own_mpi.hpp"

namespace tapa {

namespace {

/// Calls MPI's blocking function, or with a request the one that starts it, with the same blocks.
template <class Blocking, class Starting, class... Blocks>
int call_or_start(Blocking* blocking, Starting* starting, MPI_Comm comm, MPI_Request* request,
                  Blocks... blocks) {
  return request != nullptr ? starting(blocks..., comm, request) : blocking(blocks..., comm);
}

#if MPI_VERSION >= 4

int call_large(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoall_c), TAPA_OWN_MPI(PMPI_Ialltoall_c), comm, request,
                           s.buffer, s.count, s.type, into, r.count, r.type);
    case Form::v:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoallv_c), TAPA_OWN_MPI(PMPI_Ialltoallv_c), comm, request,
                           s.buffer, s.large_counts, s.large_displs, s.type, into, r.large_counts,
                           r.large_displs, r.type);
    default:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoallw_c), TAPA_OWN_MPI(PMPI_Ialltoallw_c), comm, request,
                           s.buffer, s.large_counts, s.large_displs, s.types, into, r.large_counts,
                           r.large_displs, r.types);
  }
}

int call_neighbours_large(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoall_c), TAPA_OWN_MPI(PMPI_Ineighbor_alltoall_c),
                           comm, request, s.buffer, s.count, s.type, into, r.count, r.type);
    case Form::v:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoallv_c), TAPA_OWN_MPI(PMPI_Ineighbor_alltoallv_c),
                           comm, request, s.buffer, s.large_counts, s.large_displs, s.type, into,
                           r.large_counts, r.large_displs, r.type);
    default:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoallw_c), TAPA_OWN_MPI(PMPI_Ineighbor_alltoallw_c),
                           comm, request, s.buffer, s.large_counts, s.large_displs, s.types, into,
                           r.large_counts, r.large_displs, r.types);
  }
}

#endif

int call_neighbours(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoall), TAPA_OWN_MPI(PMPI_Ineighbor_alltoall), comm,
                           request, s.buffer, static_cast<int>(s.count), s.type, into,
                           static_cast<int>(r.count), r.type);
    case Form::v:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoallv), TAPA_OWN_MPI(PMPI_Ineighbor_alltoallv),
                           comm, request, s.buffer, s.counts, s.displs, s.type, into, r.counts, r.displs,
                           r.type);
    default:
      return call_or_start(TAPA_OWN_MPI(PMPI_Neighbor_alltoallw), TAPA_OWN_MPI(PMPI_Ineighbor_alltoallw),
                           comm, request, s.buffer, s.counts, s.large_displs, s.types, into, r.counts,
                           r.large_displs, r.types);
  }
}

int call_small(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoall), TAPA_OWN_MPI(PMPI_Ialltoall), comm, request, s.buffer,
                           static_cast<int>(s.count), s.type, into, static_cast<int>(r.count), r.type);
    case Form::v:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoallv), TAPA_OWN_MPI(PMPI_Ialltoallv), comm, request,
                           s.buffer, s.counts, s.displs, s.type, into, r.counts, r.displs, r.type);
    default:
      return call_or_start(TAPA_OWN_MPI(PMPI_Alltoallw), TAPA_OWN_MPI(PMPI_Ialltoallw), comm, request,
                           s.buffer, s.counts, s.displs, s.types, into, r.counts, r.displs, r.types);
  }
}

#if MPI_VERSION < 4

int narrow(MPI_Count value, const char* what) {
  if (value > std::numeric_limits<int>::max() || value < std::numeric_limits<int>::min()) {
    throw CallError(MPI_ERR_COUNT, std::string(what) + " " + std::to_string(value) +
                                       " cannot be handed to this MPI, which has no large counts");
  }
  return static_cast<int>(value);
}

/// Points a side's int arrays at narrowed copies of its large ones; `addresses`: displacements stay as they
/// are.
Side narrow_side(const Side& side, int blocks, bool addresses, int* memory) {
  Side out = side;
  if (side.large_counts == nullptr || side.large_displs == nullptr) return out;  // MPI refuses that
  for (int i = 0; i < blocks; ++i) {
    memory[i] = narrow(side.large_counts[i], "count");
    if (!addresses) memory[blocks + i] = narrow(side.large_displs[i], "displacement");
  }
  out.counts = memory;
  out.displs = memory + blocks;
  return out;
}

#endif

}  // namespace

#if MPI_VERSION >= 4

Arguments for_mpi(const Arguments& a, int, MpiCallStorage&) {
  return a;
}

int call_mpi(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  if (a.neighbours)
    return a.large ? call_neighbours_large(a, comm, request) : call_neighbours(a, comm, request);
  return a.large ? call_large(a, comm, request) : call_small(a, comm, request);
}

#else

Arguments for_mpi(const Arguments& a, int ranks, MpiCallStorage& storage) {
  if (!a.large) return a;
  Arguments small = a;
  small.large = false;
  if (a.form == Form::uniform) {
    narrow(a.send.count, "sendcount");
    narrow(a.recv.count, "recvcount");
  } else {
    if (a.neighbours && a.edges == nullptr)
      throw CallError(MPI_ERR_TOPOLOGY, "comm has no topology, expected one with neighbours");
    const int sent = a.blocks(a.send, ranks);
    const int received = a.blocks(a.recv, ranks);
    const bool addresses = a.neighbours && a.form == Form::w;
    storage.numbers.resize(2 * (static_cast<std::size_t>(sent) + static_cast<std::size_t>(received)));
    int* const numbers = storage.numbers.data();
    if (!a.in_place()) small.send = narrow_side(a.send, sent, addresses, numbers);
    small.recv = narrow_side(a.recv, received, addresses, numbers + std::ptrdiff_t{2} * sent);
  }
  return small;
}

int call_mpi(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  return a.neighbours ? call_neighbours(a, comm, request) : call_small(a, comm, request);
}

#endif

int call_mpi_bytes(const void* send, void* recv, std::size_t bytes, MPI_Comm comm) {
  const auto count = static_cast<int>(bytes);
  return TAPA_OWN_MPI(PMPI_Alltoall)(send, count, MPI_BYTE, recv, count, MPI_BYTE, comm);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)  // which is MPI 3.1 and more
#define TAPA_PERSISTENT(name) TAPA_OWN_MPI(PMPI_##name)
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
// An extension of Open MPI 4; Open MPI 5, which runs what was built for 4, has it by the standard's names
// only.
#pragma weak PMPIX_Alltoall_init
#pragma weak PMPIX_Alltoallv_init
#pragma weak PMPIX_Alltoallw_init
#pragma weak PMPIX_Neighbor_alltoall_init
#pragma weak PMPIX_Neighbor_alltoallv_init
#pragma weak PMPIX_Neighbor_alltoallw_init
#define TAPA_PERSISTENT(name)                                                                 \
  ([]() noexcept {                                                                            \
    static const auto function = either_name("PMPIX_" #name, &(PMPIX_##name), "PMPI_" #name); \
    return function;                                                                          \
  }())

namespace {

template <class Function>
Function* either_name(const char* extension, Function* linked, const char* standard) {
  Function* const found = own_mpi(extension, linked);
  return found != nullptr ? found : own_mpi<Function>(standard, nullptr);
}

}  // namespace
#endif

void require_mpi_init(const Arguments& a) {
#ifndef TAPA_PERSISTENT
  throw CallError(
      MPI_ERR_UNSUPPORTED_OPERATION,
      "this MPI has no persistent all-to-all to leave the call to, expected MPI_THREAD_MULTIPLE or MPI 4");
#endif
#if MPI_VERSION < 4
  if (a.large && a.form != Form::uniform) {  // nobody would own the narrowed arrays
    throw CallError(MPI_ERR_COUNT, "arrays of large counts cannot be handed to this MPI's persistent calls");
  }
  MpiCallStorage none;
  static_cast<void>(for_mpi(a, 0, none));
#else
  static_cast<void>(a);
#endif
}

#ifdef TAPA_PERSISTENT

namespace {

#if MPI_VERSION >= 4

int init_neighbours_large(const Arguments& a, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return TAPA_PERSISTENT(Neighbor_alltoall_init_c)(s.buffer, s.count, s.type, into, r.count, r.type,
                                                       a.comm, MPI_INFO_NULL, request);
    case Form::v:
      return TAPA_PERSISTENT(Neighbor_alltoallv_init_c)(s.buffer, s.large_counts, s.large_displs, s.type,
                                                        into, r.large_counts, r.large_displs, r.type, a.comm,
                                                        MPI_INFO_NULL, request);
    default:
      return TAPA_PERSISTENT(Neighbor_alltoallw_init_c)(s.buffer, s.large_counts, s.large_displs, s.types,
                                                        into, r.large_counts, r.large_displs, r.types, a.comm,
                                                        MPI_INFO_NULL, request);
  }
}

int init_large(const Arguments& a, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return TAPA_PERSISTENT(Alltoall_init_c)(s.buffer, s.count, s.type, into, r.count, r.type, a.comm,
                                              MPI_INFO_NULL, request);
    case Form::v:
      return TAPA_PERSISTENT(Alltoallv_init_c)(s.buffer, s.large_counts, s.large_displs, s.type, into,
                                               r.large_counts, r.large_displs, r.type, a.comm, MPI_INFO_NULL,
                                               request);
    default:
      return TAPA_PERSISTENT(Alltoallw_init_c)(s.buffer, s.large_counts, s.large_displs, s.types, into,
                                               r.large_counts, r.large_displs, r.types, a.comm, MPI_INFO_NULL,
                                               request);
  }
}

#endif

int init_neighbours(const Arguments& a, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return TAPA_PERSISTENT(Neighbor_alltoall_init)(s.buffer, static_cast<int>(s.count), s.type, into,
                                                     static_cast<int>(r.count), r.type, a.comm, MPI_INFO_NULL,
                                                     request);
    case Form::v:
      return TAPA_PERSISTENT(Neighbor_alltoallv_init)(s.buffer, s.counts, s.displs, s.type, into, r.counts,
                                                      r.displs, r.type, a.comm, MPI_INFO_NULL, request);
    default:
      return TAPA_PERSISTENT(Neighbor_alltoallw_init)(s.buffer, s.counts, s.large_displs, s.types, into,
                                                      r.counts, r.large_displs, r.types, a.comm,
                                                      MPI_INFO_NULL, request);
  }
}

int init_small(const Arguments& a, MPI_Request* request) {
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return TAPA_PERSISTENT(Alltoall_init)(s.buffer, static_cast<int>(s.count), s.type, into,
                                            static_cast<int>(r.count), r.type, a.comm, MPI_INFO_NULL,
                                            request);
    case Form::v:
      return TAPA_PERSISTENT(Alltoallv_init)(s.buffer, s.counts, s.displs, s.type, into, r.counts, r.displs,
                                             r.type, a.comm, MPI_INFO_NULL, request);
    default:
      return TAPA_PERSISTENT(Alltoallw_init)(s.buffer, s.counts, s.displs, s.types, into, r.counts, r.displs,
                                             r.types, a.comm, MPI_INFO_NULL, request);
  }
}

}  // namespace

int call_mpi_init(const Arguments& a, MPI_Request* request) {
#if MPI_VERSION >= 4
  if (a.large) return a.neighbours ? init_neighbours_large(a, request) : init_large(a, request);
#endif
  return a.neighbours ? init_neighbours(a, request) : init_small(a, request);
}

#else

int call_mpi_init(const Arguments&, MPI_Request*) {
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

#endif

}  // namespace tapa
