#include "next.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "options.hpp"

namespace tapa::preload {

namespace {

// A function that neither tools nor other libraries that are loaded before MPI define.
constexpr const char* kOnlyMpi = "PMPI_Get_library_version";

/// File of the object that an address belongs to; null when that is unknown.
const char* file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fname : nullptr;
}

/// Files of the objects that were loaded after this one, in that order.
std::vector<std::string> later_objects() {
  struct List {
    std::string self;
    bool passed = false;
    std::vector<std::string> files;
  } list;
  list.self = file_of(reinterpret_cast<const void*>(&find_next));
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto& l = *static_cast<List*>(data);
        if (l.passed && *object->dlpi_name != '\0') l.files.emplace_back(object->dlpi_name);
        l.passed = l.passed || l.self == object->dlpi_name;
        return 0;
      },
      &list);
  return list.files;
}

/// `name` in an object that is loaded, or in those it was linked with.
void* find_in(const char* file, const char* name) {
  void* const handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);
  return found;
}

/// Whether `address` is not the MPI library's own function of that name.
bool is_of_a_tool(const char* name, const void* address) {
  const char* const mpi = file_of(find_next(kOnlyMpi));
  const void* const own = mpi != nullptr ? find_in(mpi, name) : nullptr;
  return own != nullptr && own != address;
}

}  // namespace

void* find_next(const char* name) {
  if (void* const found = dlsym(RTLD_NEXT, name)) return found;
  // What was opened later, as interpreters open MPI, RTLD_NEXT does not see.
  for (const auto& file : later_objects()) {
    if (void* const found = find_in(file.c_str(), name)) return found;
  }
  return nullptr;
}

void* next(const char* name) {
  if (void* const found = find_next(name)) return found;
  say("preload: no MPI library has %s; the program calls MPI, but none is loaded", name);
  std::abort();
}

void* object_of_mpi(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : next(name);
}

bool has_mpi() {
  static std::atomic<bool> found{false};  // once found it stays
  if (!found.load(std::memory_order_relaxed)) {
    found.store(find_next(kOnlyMpi) != nullptr, std::memory_order_relaxed);
  }
  return found.load(std::memory_order_relaxed);
}

bool passes(const char* name, const void* address) {
  if (!enabled() || !has_mpi()) return true;
  return *name == 'M' && is_of_a_tool(name, address);
}

const std::array<std::string, kFunctions>& function_names() {
  static const auto* const names = [] {
    auto* const made = new std::array<std::string, kFunctions>;  // outlives all destructors
    auto name = made->begin();
    for (const char* const prefix : {"MPI_", "MPIX_"}) {
      for (const char* const call : {"Alltoall", "Alltoallv", "Alltoallw", "Ialltoall", "Ialltoallv",
                                     "Ialltoallw", "Alltoall_init", "Alltoallv_init", "Alltoallw_init"}) {
        for (const char* const suffix : {"", "_c"}) *name++ = std::string(prefix) + call + suffix;
      }
    }
    return made;
  }();
  return *names;
}

std::array<bool, kFunctions> passing_functions() {
  std::array<bool, kFunctions> passing{};
  std::ranges::transform(function_names(), passing.begin(), [](const std::string& name) {
    const void* const behind = dlsym(RTLD_NEXT, name.c_str());
    return behind != nullptr && passes(name.c_str(), behind);
  });
  return passing;
}

}  // namespace tapa::preload
