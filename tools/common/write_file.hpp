/// Files that programs write because an option says so.
#pragma once

#include <stdexcept>
#include <string>

#include "files/output_file.hpp"
#include "signals_held.hpp"

namespace tapa {

/// The file is there whole or not at all, and no draft of it, also where the program is asked to end. Throws
/// std::invalid_argument: "OPTION NAME: cannot be written: WHY".
inline void write_file(const std::string& option, const std::string& name, const std::string& text) {
  const SignalsHeld held;
  try {
    files::write_file(name, [&](std::ostream& out) { out << text; });
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(option + " " + error.what());
  }
}

/// Before long work: throws as write_file would. An empty name is none.
inline void require_writable(const std::string& option, const std::string& name) {
  if (name.empty()) return;
  const SignalsHeld held;
  try {
    files::check_writable(name);
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(option + " " + error.what());
  }
}

}  // namespace tapa
