#include "library.hpp"

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>

#include "agreement.hpp"
#include "options.hpp"

namespace tapa::preload {

namespace {

std::atomic<int (*)()> end_guest{nullptr};

void* loaded_libtapa() {
  return dlopen(TAPA_LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

constinit Path file_of_libtapa;

/// Before the program can go elsewhere: the loader may know the drop-in by a relative name, from the folder
/// that is the current one now.
__attribute__((constructor)) void note_libtapa_file() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&libtapa_file), &self);
  const std::string_view drop_in = self.dli_fname != nullptr ? self.dli_fname : "";
  const auto slash = drop_in.rfind('/');
  std::array<char, PATH_MAX> folder{};
  if (slash != std::string_view::npos && drop_in[0] != '/' && getcwd(folder.data(), folder.size()) != nullptr)
    file_of_libtapa.add(std::string_view(folder.data()), std::string_view("/"));
  file_of_libtapa.add(drop_in.substr(0, slash + 1), std::string_view(TAPA_LIBRARY_NAME));
}

/// Tells libtapa that it is a guest in a program that did not ask for it, and sets it up.
void introduce(void* libtapa) {
  const auto guest = reinterpret_cast<int (*)(const char*)>(dlsym(libtapa, "TAPA_Guest"));
  if (guest == nullptr) return;  // an older libtapa, which the program has loaded itself
  if (guest(TAPA_VERSION) != MPI_SUCCESS) {
    end_job("%s refuses the drop-in of version %s", TAPA_LIBRARY_NAME, TAPA_VERSION);
  }
  end_guest = reinterpret_cast<int (*)()>(dlsym(libtapa, "TAPA_Guest_end"));
}

void* load() {
  void* const handle = loaded_libtapa();
  return handle != nullptr ? handle : dlopen(libtapa_file().c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* libtapa_handle = nullptr;  // kept until the process ends

void open_libtapa() {
  libtapa_handle = load();
  if (libtapa_handle == nullptr)
    end_job("preload: %s cannot be loaded: %s", libtapa_file().c_str(), dlerror());
  introduce(libtapa_handle);
}

void* libtapa() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_libtapa);
  return libtapa_handle;
}

}  // namespace

const Path& libtapa_file() {
  return file_of_libtapa;
}

bool libtapa_is_there() {
  if (void* const handle = loaded_libtapa()) {
    dlclose(handle);
    return true;
  }
  return access(libtapa_file().c_str(), R_OK) == 0;
}

void load_libtapa() {
  static_cast<void>(libtapa());
}

void* tapa_function(const char* name) {
  void* const found = dlsym(libtapa(), name);
  if (found == nullptr) {
    say("preload: %s has no %s (another version?); this call stays with MPI", TAPA_LIBRARY_NAME, name);
  }
  return found;
}

void end_libtapa() {
  if (const auto end = end_guest.load()) end();
}

}  // namespace tapa::preload
