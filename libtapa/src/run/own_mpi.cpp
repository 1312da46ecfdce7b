#include "run/own_mpi.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tapa {

namespace {

// Not one that programs take the address of: then it would seem to lie in them.
constexpr const char* kMark = "PMPI_Get_library_version";

/// The files of all objects that are loaded, without the program itself.
std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* into) {
        if (object->dlpi_name != nullptr && *object->dlpi_name != '\0')
          static_cast<std::vector<std::string>*>(into)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

/// A handle of the object when it defines the mark itself, not by one of its dependencies; else null.
void* open_if_marked(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  Dl_info info{};
  void* const found = dlsym(handle, kMark);
  if (found != nullptr && dladdr(found, &info) != 0 && info.dli_fname != nullptr && file == info.dli_fname)
    return handle;
  dlclose(handle);
  return nullptr;
}

// Not inside dl_iterate_phdr(), which holds a lock of the loader: a thread that is in dlopen() takes it
// second.
void* open_mpi_library() {
  for (const std::string& file : loaded_files()) {
    if (void* const handle = open_if_marked(file)) return handle;
  }
  return nullptr;
}

}  // namespace

void* find_in_mpi(const char* name) {
  static void* const handle = open_mpi_library();
  return handle != nullptr ? dlsym(handle, name) : nullptr;
}

}  // namespace tapa
