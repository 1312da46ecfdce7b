// What the libraries see of the environment and of folders.
#include <iostream>

#include "comm/results_store.hpp"
#include "exchange/plugin_path.hpp"
#include "files/environment.hpp"
#include "topology/topology_file.hpp"

int main() {
  std::cout << "more rights: " << files::has_more_rights() << "\n";
  for (const dit::PluginFolder& folder : dit::plugin_folders())
    std::cout << "plugins: " << folder.path.string() << " (" << folder.reason << ")\n";
  for (const std::string& folder : tapa::machine_folders()) std::cout << "machines: " << folder << "\n";
  std::vector<std::string> warnings;
  const tapa::Options options = tapa::Options::from_environment(files::variables(), warnings);
  std::cout << "tuning: " << options.text("tuning") << "\ntopology: " << options.text("topology")
            << "\ncache: " << tapa::results_file(options) << "\n";
}
