#include "library.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "agreement.hpp"
#include "mpi_as_passed.hpp"
#include "options.hpp"

namespace tapa::preload {

namespace {

std::atomic<int (*)()> end_drop_in{nullptr};
const char* file_name = TAPA_LIBRARY_NAME;

void* loaded_libtapa() {
  return dlopen(file_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

const char* name_of_the_drop_in() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&libtapa_file), &self);
  return self.dli_fname != nullptr ? self.dli_fname : "";
}

/// Also a name without a folder: the loader found it by an empty element of LD_LIBRARY_PATH.
bool is_relative(std::string_view name) {
  return !name.starts_with('/');
}

/// The folder that a relative name begins in; null where that has no name, as one of a file system that is
/// mounted no more.
char* loaded_in = nullptr;

/// Before the program can go elsewhere.
__attribute__((constructor)) void note_folder() {
  if (is_relative(name_of_the_drop_in())) loaded_in = getcwd(nullptr, 0);
}

/// Tells libtapa that it is in a program that did not ask for it, and sets it up. `of_program`: the program
/// has loaded it.
void introduce(void* libtapa, bool of_program) {
  const auto begin = reinterpret_cast<int (*)(const char*)>(dlsym(libtapa, "TAPA_Interpose_begin"));
  if (begin == nullptr && of_program) return;  // an older one
  if (begin == nullptr || begin(TAPA_VERSION) != MPI_SUCCESS) {
    end_job("%s refuses the drop-in of version %s", file_name, TAPA_VERSION);
  }
  end_drop_in = reinterpret_cast<int (*)()>(dlsym(libtapa, "TAPA_Interpose_end"));
}

void* libtapa_handle = nullptr;  // kept until the process ends

void open_libtapa() {
  libtapa_handle = loaded_libtapa();
  const bool of_program = libtapa_handle != nullptr;
  if (!of_program) libtapa_handle = dlopen(libtapa_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (libtapa_handle == nullptr)
    end_job("preload: %s cannot be loaded: %s", libtapa_file().c_str(), dlerror());
  introduce(libtapa_handle, of_program);
}

void* libtapa() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_libtapa);
  return libtapa_handle;
}

}  // namespace

void serve_standard() {
  file_name = TAPA_STANDARD_LIBRARY_NAME;
}

const char* libtapa_name() {
  return file_name;
}

Path libtapa_file() {
  const std::string_view drop_in = name_of_the_drop_in();
  Path file;
  if (is_relative(drop_in)) {
    if (loaded_in == nullptr) return {};  // not where the program has gone to
    file.add(loaded_in, "/");
  }
  return file.add(drop_in.substr(0, drop_in.rfind('/') + 1), file_name);
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
    say("preload: %s has no %s (another version?); this call stays with MPI", file_name, name);
  }
  return found;
}

void end_libtapa() {
  if (const auto end = end_drop_in.load()) end();
}

}  // namespace tapa::preload
