#include "exchange/plugin_path.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace dit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "libdit-exchange-";
constexpr std::string_view suffix = ".so";

// Folder of the library or program that holds this function.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path();
}

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

class FolderList {
 public:
  void add(const fs::path& path, const char* reason) {
    if (path.empty()) return;
    fs::path normal = path.lexically_normal();
    if (!normal.has_filename() && normal.has_relative_path()) normal = normal.parent_path();  // "/c/" is "/c"
    if (std::ranges::find(folders, normal, &PluginFolder::path) == folders.end())
      folders.push_back({normal, reason});
  }
  std::vector<PluginFolder> folders;
};

}  // namespace

std::vector<PluginFolder> plugin_folders() {
  FolderList list;
  if (const char* value = std::getenv("DIT_PLUGIN_PATH")) {
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      list.add(fs::path(folder), "DIT_PLUGIN_PATH");
    }
  }
  if (const fs::path program = program_folder(); !program.empty()) {
    list.add(program, "folder of the program");
    list.add(program / "../lib", "lib beside the program's folder");
  }
  list.add(own_folder(), "folder of libdit");
  list.add(DIT_INSTALL_LIBDIR, "install folder");
  return list.folders;
}

std::string plugin_file_name(std::string_view name) {
  return std::string(prefix) + std::string(name) + std::string(suffix);
}

std::vector<std::string> plugin_names(const std::vector<PluginFolder>& folders) {
  std::set<std::string> names;
  for (const PluginFolder& folder : folders) {
    std::error_code ignored;  // a folder that is not there, or may not be read
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path, ignored)) {
      const std::string file = entry.path().filename().string();
      if (file.size() > prefix.size() + suffix.size() && file.starts_with(prefix) && file.ends_with(suffix))
        names.insert(file.substr(prefix.size(), file.size() - prefix.size() - suffix.size()));
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace dit
