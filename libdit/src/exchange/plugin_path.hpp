/// Where plugins are looked for.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dit {

/// A folder of the search path, and why it is on it ("DIT_PLUGIN_PATH").
struct PluginFolder {
  std::filesystem::path path;
  std::string reason;
};

/// The search path in order, without repetitions.
[[nodiscard]] std::vector<PluginFolder> plugin_folders();

/// libdit-exchange-NAME.so
[[nodiscard]] std::string plugin_file_name(std::string_view name);

/// Names of the plugins in these folders, sorted, each once.
[[nodiscard]] std::vector<std::string> plugin_names(const std::vector<PluginFolder>& folders);

}  // namespace dit
