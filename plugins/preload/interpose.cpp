/// @file
/// The MPI functions that this library takes over, each under its MPI_ and its PMPI_ name: Open MPI's Fortran
/// entry points (mpif.h, mpi, mpi_f08) call the PMPI_ ones, MPICH's the MPI_ ones, after they have turned
/// Fortran's handles and constants into C's. So C, all Fortran interfaces and tools stacked above are caught
/// in one place.
#include <mpi.h>
#ifdef TAPA_HAVE_MPI_EXT
#include <mpi-ext.h>
#endif

#include <atomic>

#include "library.hpp"
#include "rails.hpp"
#include "tapa/tapa.h"

namespace tapa::preload {

namespace {

/// Whether this thread is inside libtapa, whose own MPI calls must reach MPI.
thread_local bool inside = false;

class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

/// A function by its two addresses, looked up when first needed. Constant-initialized: calls may come from
/// other libraries' constructors.
template <typename Signature>
class Function;

template <typename... Parameters>
class Function<int(Parameters...)> {
 public:
  constexpr Function(const char* mpi_name, const char* tapa_name)
      : mpi_name_(mpi_name), tapa_name_(tapa_name) {}

  int operator()(Parameters... arguments) {
    if (inside) return mpi()(arguments...);
    const Address ours = tapa();
    if (ours == nullptr) return mpi()(arguments...);
    const Inside guard;
    return ours(arguments...);
  }

 private:
  using Address = int (*)(Parameters...);

  Address mpi() {
    Address address = mpi_.load(std::memory_order_acquire);
    if (address == nullptr) {
      address = reinterpret_cast<Address>(mpi_function(mpi_name_));
      mpi_.store(address, std::memory_order_release);
    }
    return address;
  }

  Address tapa() {
    if (!looked_.load(std::memory_order_acquire)) {
      const Inside guard;  // what loading runs is not a program's call
      tapa_.store(reinterpret_cast<Address>(tapa_function(tapa_name_)), std::memory_order_relaxed);
      looked_.store(true, std::memory_order_release);
    }
    return tapa_.load(std::memory_order_relaxed);
  }

  const char* mpi_name_;
  const char* tapa_name_;
  std::atomic<Address> mpi_{nullptr};
  std::atomic<Address> tapa_{nullptr};
  std::atomic<bool> looked_{false};
};

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

// PREFIX is MPI or MPIX; the function is exported under its own and its profiling name.
#define TAPA_TAKE_OVER(PREFIX, NAME, PARAMETERS, ARGUMENTS)                                         \
  TAPA_EXPORT int PREFIX##_##NAME PARAMETERS {                                                      \
    static constinit tapa::preload::Function<decltype(TAPA_##NAME)> function{"P" #PREFIX "_" #NAME, \
                                                                             "TAPA_" #NAME};        \
    return function ARGUMENTS;                                                                      \
  }                                                                                                 \
  TAPA_EXPORT decltype(PREFIX##_##NAME) P##PREFIX##_##NAME __attribute__((alias(#PREFIX "_" #NAME)));

#define TAPA_UNIFORM(COUNT)                                                                    \
  const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, \
      MPI_Datatype recvtype, MPI_Comm comm
#define TAPA_VECTOR(COUNT, OFFSET)                                                              \
  const void *sendbuf, const COUNT sendcounts[], const OFFSET sdispls[], MPI_Datatype sendtype, \
      void *recvbuf, const COUNT recvcounts[], const OFFSET rdispls[], MPI_Datatype recvtype, MPI_Comm comm
#define TAPA_TYPED(COUNT, OFFSET)                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const OFFSET sdispls[], const MPI_Datatype sendtypes[], \
      void *recvbuf, const COUNT recvcounts[], const OFFSET rdispls[], const MPI_Datatype recvtypes[],   \
      MPI_Comm comm
#define TAPA_UNIFORM_ARGUMENTS sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm
#define TAPA_VECTOR_ARGUMENTS \
  sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm
#define TAPA_TYPED_ARGUMENTS \
  sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm

// clang-format off
#define TAPA_TAKE_OVER_CALLS(SUFFIX, COUNT, OFFSET)                                                                  \
  TAPA_TAKE_OVER(MPI, Alltoall##SUFFIX, (TAPA_UNIFORM(COUNT)), (TAPA_UNIFORM_ARGUMENTS))                             \
  TAPA_TAKE_OVER(MPI, Alltoallv##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET)), (TAPA_VECTOR_ARGUMENTS))                      \
  TAPA_TAKE_OVER(MPI, Alltoallw##SUFFIX, (TAPA_TYPED(COUNT, OFFSET)), (TAPA_TYPED_ARGUMENTS))                        \
  TAPA_TAKE_OVER(MPI, Ialltoall##SUFFIX, (TAPA_UNIFORM(COUNT), MPI_Request* request),                                \
                 (TAPA_UNIFORM_ARGUMENTS, request))                                                                  \
  TAPA_TAKE_OVER(MPI, Ialltoallv##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET), MPI_Request* request),                        \
                 (TAPA_VECTOR_ARGUMENTS, request))                                                                   \
  TAPA_TAKE_OVER(MPI, Ialltoallw##SUFFIX, (TAPA_TYPED(COUNT, OFFSET), MPI_Request* request),                         \
                 (TAPA_TYPED_ARGUMENTS, request))
#define TAPA_TAKE_OVER_PERSISTENT(PREFIX, SUFFIX, COUNT, OFFSET)                                                     \
  TAPA_TAKE_OVER(PREFIX, Alltoall_init##SUFFIX, (TAPA_UNIFORM(COUNT), MPI_Info info, MPI_Request* request),          \
                 (TAPA_UNIFORM_ARGUMENTS, info, request))                                                            \
  TAPA_TAKE_OVER(PREFIX, Alltoallv_init##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET), MPI_Info info, MPI_Request* request),  \
                 (TAPA_VECTOR_ARGUMENTS, info, request))                                                             \
  TAPA_TAKE_OVER(PREFIX, Alltoallw_init##SUFFIX, (TAPA_TYPED(COUNT, OFFSET), MPI_Info info, MPI_Request* request),   \
                 (TAPA_TYPED_ARGUMENTS, info, request))
// clang-format on

extern "C" {

TAPA_TAKE_OVER_CALLS(, int, int)
#ifdef TAPA_HAVE_MPI_LARGE_COUNT
TAPA_TAKE_OVER_CALLS(_c, MPI_Count, MPI_Aint)
#endif
#ifdef TAPA_HAVE_MPIX_PERSISTENT
TAPA_TAKE_OVER_PERSISTENT(MPIX, , int, int)
#endif
#ifdef TAPA_HAVE_MPI_PERSISTENT
TAPA_TAKE_OVER_PERSISTENT(MPI, , int, int)
#endif
#if defined(TAPA_HAVE_MPI_PERSISTENT) && defined(TAPA_HAVE_MPI_LARGE_COUNT)
TAPA_TAKE_OVER_PERSISTENT(MPI, _c, MPI_Count, MPI_Aint)
#endif

// Rails are chosen before MPI opens its NICs.
TAPA_EXPORT int MPI_Init(int* argc, char*** argv) {
  tapa::preload::pin_to_rail();
  return reinterpret_cast<decltype(&MPI_Init)>(tapa::preload::mpi_function("PMPI_Init"))(argc, argv);
}
TAPA_EXPORT decltype(MPI_Init) PMPI_Init __attribute__((alias("MPI_Init")));

TAPA_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  tapa::preload::pin_to_rail();
  return reinterpret_cast<decltype(&MPI_Init_thread)>(tapa::preload::mpi_function("PMPI_Init_thread"))(
      argc, argv, required, provided);
}
TAPA_EXPORT decltype(MPI_Init_thread) PMPI_Init_thread __attribute__((alias("MPI_Init_thread")));

}  // extern "C"
