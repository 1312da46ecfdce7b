#include "run/own_mpi.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace tapa {

namespace {

// Not one that programs take the address of: then it would seem to lie in them.
constexpr const char* kMark = "PMPI_Get_library_version";

struct Search {
  void* handle = nullptr;
};

/// Stops at the object that defines the mark itself, not by one of its dependencies.
int look_at(dl_phdr_info* object, std::size_t, void* into) {
  if (object->dlpi_name == nullptr || *object->dlpi_name == '\0') return 0;
  void* const handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return 0;
  Dl_info info{};
  void* const found = dlsym(handle, kMark);
  const bool its_own = found != nullptr && dladdr(found, &info) != 0 && info.dli_fname != nullptr &&
                       std::strcmp(info.dli_fname, object->dlpi_name) == 0;
  if (!its_own) {
    dlclose(handle);
    return 0;
  }
  static_cast<Search*>(into)->handle = handle;
  return 1;
}

}  // namespace

void* find_in_mpi(const char* name) {
  static void* const handle = [] {
    Search search;
    dl_iterate_phdr(look_at, &search);
    return search.handle;
  }();
  return handle != nullptr ? dlsym(handle, name) : nullptr;
}

}  // namespace tapa
