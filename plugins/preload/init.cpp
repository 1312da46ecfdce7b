/// @file
/// MPI_Init and MPI_Init_thread: NICs are chosen before MPI opens them, and what all ranks must agree on is
/// agreed where all of them are. A tool may call the PMPI_ name from within its MPI_ name: either does what
/// the other has not done yet.
#include <atomic>

#include "agreement.hpp"
#include "mpi_as_passed.hpp"
#include "next.hpp"
#include "options.hpp"
#include "rails.hpp"

namespace tapa::preload {

namespace {

template <class... Arguments>
int initialize(const char* name, Arguments... arguments) {
  const auto mpi = reinterpret_cast<int (*)(Arguments...)>(next(name));
  if (!enabled() || !has_mpi()) return mpi(arguments...);
  static std::atomic<bool> pinned{false};
  if (!pinned.exchange(true)) pin_to_rail();
  const int code = mpi(arguments...);
  if (code == MPI_SUCCESS) agree();
  return code;
}

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

extern "C" {

TAPA_EXPORT int MPI_Init(int* argc, char*** argv) {
  return tapa::preload::initialize("MPI_Init", argc, argv);
}
TAPA_EXPORT int PMPI_Init(int* argc, char*** argv) {
  return tapa::preload::initialize("PMPI_Init", argc, argv);
}
TAPA_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return tapa::preload::initialize("MPI_Init_thread", argc, argv, required, provided);
}
TAPA_EXPORT int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return tapa::preload::initialize("PMPI_Init_thread", argc, argv, required, provided);
}

}  // extern "C"
