#include "library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tapa::preload {

namespace {

// The MPI whose handles and constants this file was compiled with; others that share MPICH's ABI answer
// differently.
#ifdef OPEN_MPI
constexpr bool kBuiltForOpenMpi = true;
constexpr const char* kBuiltFor = "Open MPI";
#else
constexpr bool kBuiltForOpenMpi = false;
constexpr const char* kBuiltFor = "MPICH";
#endif

[[noreturn]] void fail(const char* what, const char* value, const char* remedy) {
  std::fprintf(stderr, "tapa: preload: %s %s; %s\n", what, value, remedy);
  std::abort();
}

void require_same_mpi() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  const auto version =
      reinterpret_cast<decltype(&PMPI_Get_library_version)>(mpi_function("PMPI_Get_library_version"));
  version(text, &length);
  const bool open_mpi = std::string_view(text).substr(0, 8) == "Open MPI";
  if (open_mpi == kBuiltForOpenMpi) return;
  if (char* end = std::strpbrk(text, "\n,")) *end = '\0';
  std::fprintf(stderr, "tapa: preload: built for %s, but this program runs %s\n", kBuiltFor, text);
  fail("wrong library in LD_PRELOAD:", TAPA_PRELOAD_NAME, "use the one that was built for the program's MPI");
}

/// libtapa's handle, or null. A name without a slash finds a loaded libtapa first, then the one beside this
/// library.
void* open_libtapa() {
  void* const handle = dlopen(TAPA_LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::fprintf(stderr, "tapa: preload: %s; all-to-all stays with MPI\n", dlerror());
  return handle;
}

/// Documented library state: loaded once, kept until the process ends.
void* libtapa() {
  static void* const handle = open_libtapa();
  return handle;
}

/// Address of `name` in an object that was opened later, as interpreters open MPI; RTLD_NEXT does not see
/// those.
void* find_in_opened_objects(const char* name) {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* list) {
        static_cast<std::vector<std::string>*>(list)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&log_info), &self);
  for (const auto& file : files) {
    if (file.empty() || file == self.dli_fname) continue;
    void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* const found = dlsym(handle, name);
    dlclose(handle);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

void* mpi_function(const char* name) {
  if (void* const found = dlsym(RTLD_NEXT, name)) return found;
  if (void* const found = find_in_opened_objects(name)) return found;
  fail("no MPI library has", name, "the program calls MPI, but none is loaded");
}

void* tapa_function(const char* name) {
  static const bool same_mpi = (require_same_mpi(), true);
  void* const handle = same_mpi ? libtapa() : nullptr;
  void* const found = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (handle != nullptr && found == nullptr) {
    std::fprintf(stderr, "tapa: preload: %s has no %s (older version?); this call stays with MPI\n",
                 TAPA_LIBRARY_NAME, name);
  }
  return found;
}

void log_info(const char* format, ...) {
  const char* const level = std::getenv("TAPA_LOG");
  if (level == nullptr) return;
  const std::string_view text(level);
  if (text != "info" && text != "debug" && text != "trace") return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "tapa: %s\n", line);
}

}  // namespace tapa::preload
