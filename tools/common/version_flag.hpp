/// @file
/// --version of every program: its name and the project's version.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tapa {

inline void add_version_flag(CLI::App& app, const std::string& names = "--version") {
  app.set_version_flag(names, app.get_name() + " " + TAPA_PROJECT_VERSION);
}

}  // namespace tapa
