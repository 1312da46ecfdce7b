/// @file
/// The all-to-alls that this library takes over, each under its MPI_ and its PMPI_ name: Open MPI's Fortran
/// entry points (mpif.h, mpi, mpi_f08) call the PMPI_ ones, MPICH's the MPI_ ones, after they have turned
/// Fortran's handles and constants into C's; tools call the PMPI_ ones.
#include <atomic>

#include "agreement.hpp"
#include "api/forms.hpp"
#include "library.hpp"
#include "mpi_as_passed.hpp"
#include "next.hpp"
#include "options.hpp"

namespace tapa::preload {

namespace {

/// A function under one of its names. What it does is found out when it is first called, and for good as soon
/// as that cannot change any more. Constant-initialized: calls may come from other libraries' constructors.
template <typename Signature>
class Function;

template <typename... Parameters>
class Function<int(Parameters...)> {
 public:
  constexpr Function(const char* name, const char* tapa_name) : name_(name), tapa_name_(tapa_name) {}

  /// Finds out now what it does. Precondition: the ranks have agreed.
  void settle() {
    if (target_.load(std::memory_order_acquire) == nullptr) find();
  }

  int operator()(Parameters... arguments) {
    if (const Address target = target_.load(std::memory_order_acquire)) [[likely]]
      return target(arguments...);
    return find()(arguments...);
  }

 private:
  using Address = int (*)(Parameters...);

  Address find() {
    Address behind = behind_.load(std::memory_order_acquire);
    if (behind == nullptr) {
      behind = reinterpret_cast<Address>(next(name_));
      if (passes(name_, reinterpret_cast<const void*>(behind))) return keep(behind);
      behind_.store(behind, std::memory_order_release);
    }
    switch (verdict()) {
      case Verdict::open:
        tell_open();
        return behind;
      case Verdict::libtapa: {
        if (stays_with_mpi(name_)) return keep(behind);
        const auto ours = reinterpret_cast<Address>(tapa_function(tapa_name_));
        return keep(ours != nullptr ? ours : behind);
      }
      default:
        return keep(behind);
    }
  }

  Address keep(Address target) {
    target_.store(target, std::memory_order_release);
    return target;
  }

  static void tell_open() {
    static std::atomic<bool> reported{false};
    if (reported.exchange(true)) return;
    log_info("preload: without MPI_Init nothing is agreed: all-to-all goes to MPI");
  }

  const char* name_;
  const char* tapa_name_;
  std::atomic<Address> behind_{nullptr};  ///< what stands behind the drop-in, when that is the MPI library
  std::atomic<Address> target_{nullptr};  ///< where calls go, once that is settled
};

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

#define TAPA_TAKE_OVER_NAME(NAME, TAPA_NAME, PARAMETERS, ARGUMENTS)                            \
  static constinit tapa::preload::Function<int PARAMETERS> function_##NAME{#NAME, #TAPA_NAME}; \
  TAPA_EXPORT int NAME PARAMETERS {                                                            \
    return function_##NAME ARGUMENTS;                                                          \
  }
// PREFIX is MPI or MPIX.
#define TAPA_TAKE_OVER(PREFIX, NAME, PARAMETERS, ARGUMENTS)                \
  TAPA_TAKE_OVER_NAME(PREFIX##_##NAME, TAPA_##NAME, PARAMETERS, ARGUMENTS) \
  TAPA_TAKE_OVER_NAME(P##PREFIX##_##NAME, TAPA_##NAME, PARAMETERS, ARGUMENTS)

// Each of a group under the name CALL of its first.
// clang-format off
#define TAPA_TAKE_OVER_CALLS(CALL, SUFFIX, COUNT, OFFSET, ADDRESS)                                                   \
  TAPA_TAKE_OVER(MPI, CALL##SUFFIX, (TAPA_UNIFORM(COUNT)), (TAPA_UNIFORM_ARGUMENTS))                                 \
  TAPA_TAKE_OVER(MPI, CALL##v##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET)), (TAPA_VECTOR_ARGUMENTS))                        \
  TAPA_TAKE_OVER(MPI, CALL##w##SUFFIX, (TAPA_TYPED(COUNT, ADDRESS)), (TAPA_TYPED_ARGUMENTS))
#define TAPA_TAKE_OVER_STARTS(CALL, SUFFIX, COUNT, OFFSET, ADDRESS)                                                  \
  TAPA_TAKE_OVER(MPI, CALL##SUFFIX, (TAPA_UNIFORM(COUNT), MPI_Request* request), (TAPA_UNIFORM_ARGUMENTS, request))  \
  TAPA_TAKE_OVER(MPI, CALL##v##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET), MPI_Request* request),                           \
                 (TAPA_VECTOR_ARGUMENTS, request))                                                                   \
  TAPA_TAKE_OVER(MPI, CALL##w##SUFFIX, (TAPA_TYPED(COUNT, ADDRESS), MPI_Request* request),                           \
                 (TAPA_TYPED_ARGUMENTS, request))
#define TAPA_TAKE_OVER_PERSISTENT(PREFIX, CALL, SUFFIX, COUNT, OFFSET, ADDRESS)                                      \
  TAPA_TAKE_OVER(PREFIX, CALL##_init##SUFFIX, (TAPA_UNIFORM(COUNT), MPI_Info info, MPI_Request* request),            \
                 (TAPA_UNIFORM_ARGUMENTS, info, request))                                                            \
  TAPA_TAKE_OVER(PREFIX, CALL##v_init##SUFFIX, (TAPA_VECTOR(COUNT, OFFSET), MPI_Info info, MPI_Request* request),    \
                 (TAPA_VECTOR_ARGUMENTS, info, request))                                                             \
  TAPA_TAKE_OVER(PREFIX, CALL##w_init##SUFFIX, (TAPA_TYPED(COUNT, ADDRESS), MPI_Info info, MPI_Request* request),    \
                 (TAPA_TYPED_ARGUMENTS, info, request))
// clang-format on

extern "C" {

TAPA_TAKE_OVER_CALLS(Alltoall, , int, int, int)
TAPA_TAKE_OVER_STARTS(Ialltoall, , int, int, int)
TAPA_TAKE_OVER_CALLS(Neighbor_alltoall, , int, int, MPI_Aint)
TAPA_TAKE_OVER_STARTS(Ineighbor_alltoall, , int, int, MPI_Aint)
#ifdef TAPA_HAVE_MPI_LARGE_COUNT
TAPA_TAKE_OVER_CALLS(Alltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
TAPA_TAKE_OVER_STARTS(Ialltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
TAPA_TAKE_OVER_CALLS(Neighbor_alltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
TAPA_TAKE_OVER_STARTS(Ineighbor_alltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
#endif
#ifdef TAPA_HAVE_MPIX_PERSISTENT
TAPA_TAKE_OVER_PERSISTENT(MPIX, Alltoall, , int, int, int)
TAPA_TAKE_OVER_PERSISTENT(MPIX, Neighbor_alltoall, , int, int, MPI_Aint)
#endif
#ifdef TAPA_HAVE_MPI_PERSISTENT
TAPA_TAKE_OVER_PERSISTENT(MPI, Alltoall, , int, int, int)
TAPA_TAKE_OVER_PERSISTENT(MPI, Neighbor_alltoall, , int, int, MPI_Aint)
#endif
#if defined(TAPA_HAVE_MPI_PERSISTENT) && defined(TAPA_HAVE_MPI_LARGE_COUNT)
TAPA_TAKE_OVER_PERSISTENT(MPI, Alltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
TAPA_TAKE_OVER_PERSISTENT(MPI, Neighbor_alltoall, _c, MPI_Count, MPI_Aint, MPI_Aint)
#endif

}  // extern "C"

namespace tapa::preload {

void settle_functions() {
  function_MPI_Alltoall.settle();
  function_PMPI_Alltoall.settle();
  function_MPI_Alltoallv.settle();
  function_PMPI_Alltoallv.settle();
  function_MPI_Ialltoall.settle();
}

}  // namespace tapa::preload
