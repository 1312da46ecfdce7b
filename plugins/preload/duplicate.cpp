/// @file
/// MPI_Comm_idup: it is passed on as it is, but libtapa has to know of it. What it begins may go on until the
/// program's next call or longer, and a communicator of libtapa's own cannot be made meanwhile.
#include <mpi.h>

#include "agreement.hpp"
#include "library.hpp"
#include "next.hpp"
#include "tapa/tapa.h"

namespace tapa::preload {

namespace {

/// A function behind the drop-in.
template <class Address>
struct Behind {
  explicit Behind(const char* name)
      : call(reinterpret_cast<Address>(next(name))),
        only(passes(name, reinterpret_cast<const void*>(call))) {}
  Address call;
  bool only;  ///< calls are passed on unseen
};

template <class Address, class... Middle>
int duplicate(const Behind<Address>& behind, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request,
              Middle... middle) {
  const auto pass_on = [&] { return behind.call(comm, middle..., newcomm, request); };
  if (behind.only) return pass_on();
  if (verdict() == Verdict::foreign) end_foreign();
  if (verdict() != Verdict::libtapa) return pass_on();
  static const auto begins =
      reinterpret_cast<decltype(&TAPA_Guest_idup_begins)>(tapa_function("TAPA_Guest_idup_begins"));
  static const auto began =
      reinterpret_cast<decltype(&TAPA_Guest_idup_began)>(tapa_function("TAPA_Guest_idup_began"));
  if (begins == nullptr || began == nullptr) return pass_on();
  begins(comm);
  const int code = pass_on();
  began(comm, code == MPI_SUCCESS ? newcomm : nullptr);
  return code;
}

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

#define TAPA_DUPLICATE(NAME)                                                     \
  TAPA_EXPORT int NAME(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) { \
    static const tapa::preload::Behind<decltype(&NAME)> behind(#NAME);           \
    return tapa::preload::duplicate(behind, comm, newcomm, request);             \
  }
#define TAPA_DUPLICATE_WITH_INFO(NAME)                                                          \
  TAPA_EXPORT int NAME(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) { \
    static const tapa::preload::Behind<decltype(&NAME)> behind(#NAME);                          \
    return tapa::preload::duplicate(behind, comm, newcomm, request, info);                      \
  }

extern "C" {

TAPA_DUPLICATE(MPI_Comm_idup)
TAPA_DUPLICATE(PMPI_Comm_idup)
#ifdef TAPA_HAVE_MPI_IDUP_WITH_INFO
TAPA_DUPLICATE_WITH_INFO(MPI_Comm_idup_with_info)
TAPA_DUPLICATE_WITH_INFO(PMPI_Comm_idup_with_info)
#endif

}  // extern "C"
