// Loading of exchange plugins.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "exchange/exchange.hpp"
#include "exchange/linked_plugins.hpp"
#include "exchange/plugin_path.hpp"
#include "exchange/plugin_table.hpp"

namespace dit {
namespace {

namespace fs = std::filesystem;

bool valid_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The first file of that name on the search path.
std::string find_plugin(std::string_view name) {
  const std::vector<PluginFolder> folders = plugin_folders();
  std::string places;
  for (const PluginFolder& folder : folders) {
    const fs::path file = folder.path / plugin_file_name(name);
    std::error_code ignored;
    if (fs::exists(file, ignored)) return file.string();
    places += "\n  " + file.string() + "  (" + folder.reason + ")";
  }
  throw ExchangeError(DIT_ERROR_ARGUMENT, "there is no exchange plugin '" + std::string(name) +
                                              "'; available: " + join(ExchangePlugin::available()) +
                                              "; looked for:" + places);
}

// Loads a plugin's file for good and gives its entry function.
dit_exchange_entry open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, "exchange plugin " + path + " cannot be loaded: " + dlerror());
  void* entry = dlsym(library, DIT_EXCHANGE_ENTRY);
  if (entry == nullptr)
    throw ExchangeError(DIT_ERROR_UNSUPPORTED,
                        "exchange plugin " + path +
                            " has no function " DIT_EXCHANGE_ENTRY
                            ": it is not an exchange plugin, or of another interface version");
  return reinterpret_cast<dit_exchange_entry>(entry);
}

}  // namespace

ExchangePlugin ExchangePlugin::load(std::string_view name) {
  if (const dit_exchange_entry entry = linked_plugin(name); entry != nullptr) return linked(entry);
  const bool is_path = name.find('/') != std::string_view::npos;
  if (!is_path && !valid_name(name))
    throw ExchangeError(DIT_ERROR_ARGUMENT,
                        "'" + std::string(name) +
                            "' is not the name of an exchange plugin: expected letters, digits, "
                            "- and _, or a path with a slash");
  const std::string path = is_path ? std::string(name) : find_plugin(name);
  return {&checked_table(open_library(path), path), path};
}

ExchangePlugin ExchangePlugin::linked(dit_exchange_entry entry) {
  return {&checked_table(entry, "(linked in)"), ""};
}

std::vector<std::string> ExchangePlugin::available() {
  std::vector<std::string> names = plugin_names(plugin_folders());
  for (const std::string& linked : linked_plugin_names())
    if (std::ranges::find(names, linked) == names.end()) names.push_back(linked);
  std::ranges::sort(names);
  return names;
}

}  // namespace dit
