/// @file
/// MPI_Alloc_mem: with TAPA_ALLOC_MEM=on a program that asks MPI for memory gets memory that the other ranks
/// of its node can map. Off by default: a forked child would share it with its parent, and peers keep its
/// pages for some time after it is freed.
#include <mpi.h>

#include <mutex>
#include <unordered_set>

#include "agreement.hpp"
#include "library.hpp"
#include "next.hpp"
#include "options.hpp"
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

/// Null when the memory is to come from MPI.
void* allocate(MPI_Aint size) {
  if (size < kShortest || verdict() != Verdict::libtapa) return nullptr;
  static const auto alloc = reinterpret_cast<decltype(&TAPA_Alloc)>(tapa_function("TAPA_Alloc"));
  void* memory = nullptr;
  if (alloc == nullptr || alloc(size, &memory) != MPI_SUCCESS) return nullptr;
  const std::lock_guard lock(given().mutex);
  given().pointers.insert(memory);
  return memory;
}

bool take_back(void* memory) {
  const std::lock_guard lock(given().mutex);
  return given().pointers.erase(memory) != 0;
}

/// A function behind the drop-in.
template <class Address>
struct Behind {
  explicit Behind(const char* name)
      : call(reinterpret_cast<Address>(next(name))),
        only(!shares_alloc_mem() || passes(name, reinterpret_cast<const void*>(call))) {}
  Address call;
  bool only;  ///< calls are passed on as they are
};

int allocate_or_pass(const Behind<decltype(&MPI_Alloc_mem)>& behind, MPI_Aint size, MPI_Info info,
                     void* baseptr) {
  if (verdict() == Verdict::foreign) end_foreign();
  void* const memory = behind.only || baseptr == nullptr ? nullptr : allocate(size);
  if (memory == nullptr) return behind.call(size, info, baseptr);
  *static_cast<void**>(baseptr) = memory;
  return MPI_SUCCESS;
}

int free_or_pass(const Behind<decltype(&MPI_Free_mem)>& behind, void* base) {
  if (behind.only || !take_back(base)) return behind.call(base);
  static const auto free = reinterpret_cast<decltype(&TAPA_Free)>(tapa_function("TAPA_Free"));
  return free(base);
}

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

extern "C" {

TAPA_EXPORT int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  static const tapa::preload::Behind<decltype(&MPI_Alloc_mem)> behind("MPI_Alloc_mem");
  return tapa::preload::allocate_or_pass(behind, size, info, baseptr);
}
TAPA_EXPORT int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  static const tapa::preload::Behind<decltype(&MPI_Alloc_mem)> behind("PMPI_Alloc_mem");
  return tapa::preload::allocate_or_pass(behind, size, info, baseptr);
}
TAPA_EXPORT int MPI_Free_mem(void* base) {
  static const tapa::preload::Behind<decltype(&MPI_Free_mem)> behind("MPI_Free_mem");
  return tapa::preload::free_or_pass(behind, base);
}
TAPA_EXPORT int PMPI_Free_mem(void* base) {
  static const tapa::preload::Behind<decltype(&MPI_Free_mem)> behind("PMPI_Free_mem");
  return tapa::preload::free_or_pass(behind, base);
}

}  // extern "C"
