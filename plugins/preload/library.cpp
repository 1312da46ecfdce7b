#include "library.hpp"

#include <dlfcn.h>
#include <mpi.h>
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

/// The loader may know the drop-in by a relative name, from the folder that is the current one when it is
/// loaded.
std::string file_beside_the_drop_in() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&libtapa_file), &self);
  std::string file = self.dli_fname != nullptr ? self.dli_fname : "";
  std::array<char, PATH_MAX> folder{};
  if (file.find('/') != std::string::npos && file[0] != '/' &&
      getcwd(folder.data(), folder.size()) != nullptr)
    file = std::string(folder.data()) + "/" + file;
  return file.substr(0, file.rfind('/') + 1) + TAPA_LIBRARY_NAME;
}

/// Before the program can go elsewhere.
__attribute__((constructor)) void note_libtapa_file() {
  static_cast<void>(libtapa_file());
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

void* open_libtapa() {
  void* const handle = load();
  if (handle == nullptr) end_job("preload: %s cannot be loaded: %s", libtapa_file().c_str(), dlerror());
  introduce(handle);
  return handle;
}

}  // namespace

const std::string& libtapa_file() {
  static const auto* const file = new std::string(file_beside_the_drop_in());  // outlives all destructors
  return *file;
}

bool libtapa_is_there() {
  if (void* const handle = loaded_libtapa()) {
    dlclose(handle);
    return true;
  }
  return access(libtapa_file().c_str(), R_OK) == 0;
}

namespace {

void* libtapa() {
  static void* const handle = open_libtapa();  // kept until the process ends
  return handle;
}

}  // namespace

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
