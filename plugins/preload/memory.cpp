/// @file
/// MPI_Alloc_mem: with TAPA_ENABLE=alloc-mem a program that asks MPI for memory gets memory that the other
/// ranks of its node can map. Off by default: a forked child would share it with its parent, and peers keep
/// its pages for some time after it is freed.
#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "agreement.hpp"
#include "library.hpp"
#include "mpi_as_passed.hpp"
#include "next.hpp"
#include "options.hpp"

namespace tapa::preload {

namespace {

// Shorter ones gain nothing, as their blocks are copied anyway.
constexpr MPI_Aint kShortest = 65536;

/// What TAPA_Alloc gave: the rest is MPI's. Never destroyed, as programs may free memory in destructors.
struct Given {
  void* memory;
  Given* next;
};
Given* given = nullptr;
pthread_mutex_t given_mutex = PTHREAD_MUTEX_INITIALIZER;

class Lock {
 public:
  Lock() { pthread_mutex_lock(&given_mutex); }
  ~Lock() { pthread_mutex_unlock(&given_mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// Address of a TAPA_* function, looked for until it is found.
template <class Address>
Address kept_function(std::atomic<Address>& kept, const char* name) {
  if (kept.load(std::memory_order_acquire) == nullptr) {
    kept.store(reinterpret_cast<Address>(tapa_function(name)), std::memory_order_release);
  }
  return kept.load(std::memory_order_acquire);
}
constinit std::atomic<int (*)(MPI_Aint, void**)> tapa_alloc{nullptr};  // TAPA_Alloc
constinit std::atomic<int (*)(void*)> tapa_free{nullptr};              // TAPA_Free

/// Null when the memory is to come from MPI.
void* allocate(MPI_Aint size) {
  if (size < kShortest || verdict() != Verdict::libtapa) return nullptr;
  const auto alloc = kept_function(tapa_alloc, "TAPA_Alloc");
  auto* const entry = alloc != nullptr ? static_cast<Given*>(std::malloc(sizeof(Given))) : nullptr;
  if (entry == nullptr) return nullptr;
  if (alloc(size, &entry->memory) != MPI_SUCCESS) {
    std::free(entry);
    return nullptr;
  }
  const Lock lock;
  entry->next = given;
  given = entry;
  return entry->memory;
}

bool take_back(void* memory) {
  const Lock lock;
  for (Given** place = &given; *place != nullptr; place = &(*place)->next) {
    Given* const entry = *place;
    if (entry->memory != memory) continue;
    *place = entry->next;
    std::free(entry);
    return true;
  }
  return false;
}

/// A function behind the drop-in, looked for when it is first called.
template <class Address>
class Behind {
 public:
  constexpr explicit Behind(const char* name) : name_(name) {}
  Address call() {
    if (call_.load(std::memory_order_acquire) == nullptr) {
      call_.store(reinterpret_cast<Address>(next(name_)), std::memory_order_release);
    }
    return call_.load(std::memory_order_acquire);
  }
  /// Whether calls are passed on as they are.
  bool only() { return !shares_alloc_mem() || passes(name_, reinterpret_cast<const void*>(call())); }

 private:
  const char* name_;
  std::atomic<Address> call_{nullptr};
};

int allocate_or_pass(Behind<decltype(&MPI_Alloc_mem)>& behind, MPI_Aint size, MPI_Info info, void* baseptr) {
  void* const memory = behind.only() || baseptr == nullptr ? nullptr : allocate(size);
  if (memory == nullptr) return behind.call()(size, info, baseptr);
  *static_cast<void**>(baseptr) = memory;
  return MPI_SUCCESS;
}

int free_or_pass(Behind<decltype(&MPI_Free_mem)>& behind, void* base) {
  if (behind.only() || !take_back(base)) return behind.call()(base);
  return kept_function(tapa_free, "TAPA_Free")(base);
}

}  // namespace

}  // namespace tapa::preload

#define TAPA_EXPORT __attribute__((visibility("default")))

extern "C" {

TAPA_EXPORT int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  static constinit tapa::preload::Behind<decltype(&MPI_Alloc_mem)> behind("MPI_Alloc_mem");
  return tapa::preload::allocate_or_pass(behind, size, info, baseptr);
}
TAPA_EXPORT int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  static constinit tapa::preload::Behind<decltype(&MPI_Alloc_mem)> behind("PMPI_Alloc_mem");
  return tapa::preload::allocate_or_pass(behind, size, info, baseptr);
}
TAPA_EXPORT int MPI_Free_mem(void* base) {
  static constinit tapa::preload::Behind<decltype(&MPI_Free_mem)> behind("MPI_Free_mem");
  return tapa::preload::free_or_pass(behind, base);
}
TAPA_EXPORT int PMPI_Free_mem(void* base) {
  static constinit tapa::preload::Behind<decltype(&MPI_Free_mem)> behind("PMPI_Free_mem");
  return tapa::preload::free_or_pass(behind, base);
}

}  // extern "C"
