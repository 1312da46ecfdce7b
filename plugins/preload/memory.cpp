/// @file
/// MPI_Alloc_mem: a program that asks MPI for memory gets memory that the other ranks of its node can map.
#include <mpi.h>

#include <mutex>
#include <unordered_set>

#include "library.hpp"
#include "tapa/tapa.h"

namespace tapa::preload {

namespace {

// Shorter ones gain nothing, as their blocks are copied anyway.
constexpr MPI_Aint kShortest = 65536;

/// What TAPA_Alloc gave: the rest is MPI's. Never destroyed, as programs may free memory in destructors.
struct Given {
  std::mutex mutex;
  std::unordered_set<void*> pointers;
};

Given& given() {
  static auto* const instance = new Given;
  return *instance;
}

void* allocate(MPI_Aint size) {
  static const auto alloc = reinterpret_cast<decltype(&TAPA_Alloc)>(tapa_function("TAPA_Alloc"));
  void* memory = nullptr;
  if (size < kShortest || alloc == nullptr || alloc(size, &memory) != MPI_SUCCESS) return nullptr;
  const std::lock_guard lock(given().mutex);
  given().pointers.insert(memory);
  return memory;
}

bool take_back(void* memory) {
  const std::lock_guard lock(given().mutex);
  return given().pointers.erase(memory) != 0;
}

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

extern "C" {

TAPA_EXPORT int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  using namespace tapa::preload;
  if (baseptr != nullptr) {
    if (void* const memory = allocate(size)) {
      *static_cast<void**>(baseptr) = memory;
      return MPI_SUCCESS;
    }
  }
  static const auto mpi = reinterpret_cast<decltype(&PMPI_Alloc_mem)>(mpi_function("PMPI_Alloc_mem"));
  return mpi(size, info, baseptr);
}
TAPA_EXPORT decltype(MPI_Alloc_mem) PMPI_Alloc_mem __attribute__((alias("MPI_Alloc_mem")));

TAPA_EXPORT int MPI_Free_mem(void* base) {
  using namespace tapa::preload;
  if (take_back(base)) {
    static const auto free = reinterpret_cast<decltype(&TAPA_Free)>(tapa_function("TAPA_Free"));
    return free(base);
  }
  static const auto mpi = reinterpret_cast<decltype(&PMPI_Free_mem)>(mpi_function("PMPI_Free_mem"));
  return mpi(base);
}
TAPA_EXPORT decltype(MPI_Free_mem) PMPI_Free_mem __attribute__((alias("MPI_Free_mem")));

}  // extern "C"
