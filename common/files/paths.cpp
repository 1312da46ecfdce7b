#include "files/paths.hpp"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

#include "files/environment.hpp"

namespace files {

namespace {

namespace fs = std::filesystem;

/// Empty where that has no name any more. Never destroyed: calls may come from destructors of globals.
const fs::path& first_folder() {
  static const auto* const folder = [] {
    std::error_code unknown;
    return new fs::path(fs::current_path(unknown));
  }();
  return *folder;
}

/// The loader's own name of the program is empty; what dladdr() calls it is what its caller did.
fs::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto here = reinterpret_cast<const void*>(&library_folder);
  if (dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  return map->l_name;
}

__attribute__((constructor)) void note_folders() {
  static_cast<void>(first_folder());
  static_cast<void>(library_folder());
}

}  // namespace

fs::path from_first_folder(const fs::path& path) {
  if (path.is_absolute()) return path;
  return first_folder().empty() ? fs::path() : first_folder() / path;
}

const fs::path& library_folder() {
  static const auto* const folder = [] {
    std::error_code unknown;
    const fs::path name = own_file();
    const fs::path file = name.empty() ? name : from_first_folder(name);
    return new fs::path(file.empty() ? file : fs::weakly_canonical(file, unknown).parent_path());
  }();
  return *folder;
}

fs::path program_folder() {
  std::error_code unknown;
  return has_more_rights() ? fs::path() : fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

}  // namespace files
