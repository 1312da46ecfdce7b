#include "exchange/plugin_path.hpp"

#include <algorithm>
#include <set>

#include "files/environment.hpp"
#include "files/paths.hpp"

namespace dit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "libdit-exchange-";
constexpr std::string_view suffix = ".so";

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
  if (const char* value = files::variable("DIT_PLUGIN_PATH")) {
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      if (!folder.empty()) list.add(files::from_first_folder(folder), "DIT_PLUGIN_PATH");
    }
  }
  if (const fs::path program = files::program_folder(); !program.empty()) {
    list.add(program, "folder of the program");
    list.add(program / "../lib", "lib beside the program's folder");
  }
  list.add(files::library_folder(), "folder of libdit");
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
