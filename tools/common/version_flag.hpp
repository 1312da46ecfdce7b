/// @file
/// --version of every program: its name and the project's version; and what is not known is named.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tapa {

inline void add_version_flag(CLI::App& app, const std::string& names = "--version") {
  app.set_version_flag(names, app.get_name() + " " + TAPA_PROJECT_VERSION);
}

/// app.parse, but a word that is not known is named before one that is missing. Throws CLI::ParseError.
inline void parse_words(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError&) {
    if (app.remaining_size(true) > 0) throw CLI::ExtrasError(app.get_name(), app.remaining(true));
    throw;
  }
}

}  // namespace tapa
