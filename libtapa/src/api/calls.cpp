// The entry points with the names of MPI's all-to-alls.
#include "api/entry.hpp"
#include "api/forms.hpp"
#include "route/decide.hpp"
#include "route/recall.hpp"
#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "tapa/tapa.h"

using namespace tapa;

namespace {

/// Along the edges of the communicator's topology.
template <Mode mode>
int run_along_edges(Arguments arguments, MPI_Request* request = nullptr) {
  arguments.neighbours = true;
  const int code = guarded(arguments.comm, arguments.function,
                           [&] { arguments.edges = edges_at(arguments.comm, mode != Mode::blocking); });
  return code != MPI_SUCCESS ? code : run<mode>(arguments, request);
}

}  // namespace

// TAPA_X does RUN to its arguments. Those of MPI_X that are remembered as MPI's go on as they were made.
#define TAPA_ENTRY(RUN, NAME, FORM, PARAMETERS, ...)                          \
  int TAPA_##NAME(PARAMETERS) {                                               \
    return RUN<Mode::blocking>(FORM##_arguments("TAPA_" #NAME, __VA_ARGS__)); \
  }
#define TAPA_REQUEST_ENTRY(RUN, NAME, FORM, PARAMETERS, ...)                              \
  int TAPA_##NAME(PARAMETERS, MPI_Request* request) {                                     \
    return RUN<Mode::nonblocking>(FORM##_arguments("TAPA_" #NAME, __VA_ARGS__), request); \
  }
#define TAPA_INIT_ENTRY(RUN, NAME, FORM, PARAMETERS, ...)                                \
  int TAPA_##NAME(PARAMETERS, MPI_Info, MPI_Request* request) {                          \
    return RUN<Mode::persistent>(FORM##_arguments("TAPA_" #NAME, __VA_ARGS__), request); \
  }
#define TAPA_FORWARDED_ENTRY(NAME, FORM, PARAMETERS, ...)                                   \
  int TAPA_##NAME(PARAMETERS) {                                                             \
    if (passes(Form::FORM, sendbuf, sendtype, recvbuf, recvtype, comm))                     \
      return in_mpi("TAPA_" #NAME, [&] { return TAPA_OWN_MPI(PMPI_##NAME)(__VA_ARGS__); }); \
    return run<Mode::blocking>(FORM##_arguments("TAPA_" #NAME, __VA_ARGS__));               \
  }
#define TAPA_FORWARDED_REQUEST_ENTRY(NAME, FORM, PARAMETERS, ...)                                    \
  int TAPA_##NAME(PARAMETERS, MPI_Request* request) {                                                \
    if (passes_nonblocking(sendbuf, recvbuf, comm))                                                  \
      return in_mpi("TAPA_" #NAME, [&] { return TAPA_OWN_MPI(PMPI_##NAME)(__VA_ARGS__, request); }); \
    return run<Mode::nonblocking>(FORM##_arguments("TAPA_" #NAME, __VA_ARGS__), request);            \
  }

// Each of a group, CALL, CALLv and CALLw: ENTRY does RUN.
#define TAPA_ENTRIES(ENTRY, RUN, CALL, SUFFIX, COUNT, OFFSET, ADDRESS)              \
  ENTRY(RUN, CALL##SUFFIX, uniform, TAPA_UNIFORM(COUNT), TAPA_UNIFORM_ARGUMENTS)    \
  ENTRY(RUN, CALL##v##SUFFIX, v, TAPA_VECTOR(COUNT, OFFSET), TAPA_VECTOR_ARGUMENTS) \
  ENTRY(RUN, CALL##w##SUFFIX, w, TAPA_TYPED(COUNT, ADDRESS), TAPA_TYPED_ARGUMENTS)
#define TAPA_LARGE_ENTRIES(ENTRY, RUN, CALL, SUFFIX) \
  TAPA_ENTRIES(ENTRY, RUN, CALL, SUFFIX, MPI_Count, MPI_Aint, MPI_Aint)

// clang-format off
extern "C" {

TAPA_FORWARDED_ENTRY(Alltoall, uniform, TAPA_UNIFORM(int), TAPA_UNIFORM_ARGUMENTS)
TAPA_FORWARDED_ENTRY(Alltoallv, v, TAPA_VECTOR(int, int), TAPA_VECTOR_ARGUMENTS)
TAPA_ENTRY(run, Alltoallw, w, TAPA_TYPED(int, int), TAPA_TYPED_ARGUMENTS)
TAPA_LARGE_ENTRIES(TAPA_ENTRY, run, Alltoall, _c)

TAPA_FORWARDED_REQUEST_ENTRY(Ialltoall, uniform, TAPA_UNIFORM(int), TAPA_UNIFORM_ARGUMENTS)
TAPA_FORWARDED_REQUEST_ENTRY(Ialltoallv, v, TAPA_VECTOR(int, int), TAPA_VECTOR_ARGUMENTS)
TAPA_FORWARDED_REQUEST_ENTRY(Ialltoallw, w, TAPA_TYPED(int, int), TAPA_TYPED_ARGUMENTS)
TAPA_LARGE_ENTRIES(TAPA_REQUEST_ENTRY, run, Ialltoall, _c)

TAPA_ENTRIES(TAPA_INIT_ENTRY, run, Alltoall, _init, int, int, int)
TAPA_LARGE_ENTRIES(TAPA_INIT_ENTRY, run, Alltoall, _init_c)

// Along the edges of a topology.
TAPA_ENTRIES(TAPA_ENTRY, run_along_edges, Neighbor_alltoall, , int, int, MPI_Aint)
TAPA_LARGE_ENTRIES(TAPA_ENTRY, run_along_edges, Neighbor_alltoall, _c)
TAPA_ENTRIES(TAPA_REQUEST_ENTRY, run_along_edges, Ineighbor_alltoall, , int, int, MPI_Aint)
TAPA_LARGE_ENTRIES(TAPA_REQUEST_ENTRY, run_along_edges, Ineighbor_alltoall, _c)
TAPA_ENTRIES(TAPA_INIT_ENTRY, run_along_edges, Neighbor_alltoall, _init, int, int, MPI_Aint)
TAPA_LARGE_ENTRIES(TAPA_INIT_ENTRY, run_along_edges, Neighbor_alltoall, _init_c)

}  // extern "C"
// clang-format on
