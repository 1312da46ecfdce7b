#include "exchange/linked_plugins.hpp"

#include <functional>
#include <map>
#include <mutex>

#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

struct LinkedPlugins {
  std::mutex mutex;
  std::map<std::string, dit_exchange_entry, std::less<>> entries{{"local", dit_exchange_local_plugin_v1}};
};

LinkedPlugins& linked_plugins() {
  static LinkedPlugins plugins;
  return plugins;
}

}  // namespace

void link_exchange_plugin(std::string_view name, dit_exchange_entry entry) {
  LinkedPlugins& plugins = linked_plugins();
  const std::scoped_lock lock(plugins.mutex);
  plugins.entries.insert_or_assign(std::string(name), entry);
}

dit_exchange_entry linked_plugin(std::string_view name) {
  LinkedPlugins& plugins = linked_plugins();
  const std::scoped_lock lock(plugins.mutex);
  const auto found = plugins.entries.find(name);
  return found == plugins.entries.end() ? nullptr : found->second;
}

std::vector<std::string> linked_plugin_names() {
  LinkedPlugins& plugins = linked_plugins();
  const std::scoped_lock lock(plugins.mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : plugins.entries) names.push_back(name);
  return names;
}

}  // namespace dit
