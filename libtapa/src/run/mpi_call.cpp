#include "run/mpi_call.hpp"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <limits>
#include <string>
#include <type_traits>

#include "run/error.hpp"
#include "run/own_mpi.hpp"

namespace tapa {

namespace {

template <class Count>
const Count* counts(const Side& side) {
  if constexpr (std::is_same_v<Count, int>)
    return side.counts;
  else
    return side.large_counts;
}

template <class Displ>
const Displ* displs(const Side& side) {
  if constexpr (std::is_same_v<Displ, int>)
    return side.displs;
  else
    return side.large_displs;
}

/// Calls one of three functions, that of the call's form, with its blocks. `Address`: displacements of w.
template <class Count, class Address, class Uniform, class V, class W>
int by_form(const Arguments& a, const Uniform& uniform, const V& v, const W& w) {
  using Displ = std::conditional_t<std::is_same_v<Count, int>, int, MPI_Aint>;
  const Side& s = a.send;
  const Side& r = a.recv;
  auto* into = const_cast<void*>(r.buffer);
  switch (a.form) {
    case Form::uniform:
      return uniform(s.buffer, static_cast<Count>(s.count), s.type, into, static_cast<Count>(r.count),
                     r.type);
    case Form::v:
      return v(s.buffer, counts<Count>(s), displs<Displ>(s), s.type, into, counts<Count>(r), displs<Displ>(r),
               r.type);
    default:
      return w(s.buffer, counts<Count>(s), displs<Address>(s), s.types, into, counts<Count>(r),
               displs<Address>(r), r.types);
  }
}

// What by_form() takes: USE of MPI's functions of the three forms, blocking and nonblocking.
#define TAPA_FORMS(USE, CALL, ICALL, SUFFIX)                                \
  USE(CALL##SUFFIX, ICALL##SUFFIX), USE(CALL##v##SUFFIX, ICALL##v##SUFFIX), \
      USE(CALL##w##SUFFIX, ICALL##w##SUFFIX)
#define TAPA_STARTS(CALL, ICALL)                                                     \
  [&](auto... blocks) {                                                              \
    return request != nullptr ? TAPA_OWN_MPI(PMPI_##ICALL)(blocks..., comm, request) \
                              : TAPA_OWN_MPI(PMPI_##CALL)(blocks..., comm);          \
  }

// clang-format off
#if MPI_VERSION >= 4

int call_large(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  return a.neighbours
             ? by_form<MPI_Count, MPI_Aint>(a, TAPA_FORMS(TAPA_STARTS, Neighbor_alltoall, Ineighbor_alltoall, _c))
             : by_form<MPI_Count, MPI_Aint>(a, TAPA_FORMS(TAPA_STARTS, Alltoall, Ialltoall, _c));
}

#endif

int call_small(const Arguments& a, MPI_Comm comm, MPI_Request* request) {
  return a.neighbours
             ? by_form<int, MPI_Aint>(a, TAPA_FORMS(TAPA_STARTS, Neighbor_alltoall, Ineighbor_alltoall, ))
             : by_form<int, int>(a, TAPA_FORMS(TAPA_STARTS, Alltoall, Ialltoall, ));
}
// clang-format on

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
  return call_small(a, comm, request);
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
#define TAPA_INITS(CALL, ICALL) \
  [&](auto... blocks) { return TAPA_PERSISTENT(CALL)(blocks..., a.comm, MPI_INFO_NULL, request); }

// clang-format off
int call_mpi_init(const Arguments& a, MPI_Request* request) {
#if MPI_VERSION >= 4
  if (a.large) {
    return a.neighbours
               ? by_form<MPI_Count, MPI_Aint>(a, TAPA_FORMS(TAPA_INITS, Neighbor_alltoall, , _init_c))
               : by_form<MPI_Count, MPI_Aint>(a, TAPA_FORMS(TAPA_INITS, Alltoall, , _init_c));
  }
#endif
  return a.neighbours ? by_form<int, MPI_Aint>(a, TAPA_FORMS(TAPA_INITS, Neighbor_alltoall, , _init))
                      : by_form<int, int>(a, TAPA_FORMS(TAPA_INITS, Alltoall, , _init));
}
// clang-format on

#else

int call_mpi_init(const Arguments&, MPI_Request*) {
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

#endif

}  // namespace tapa
