/// @file
/// The file of what was learnt. It is untrusted like a tuning file, whose words for plans it uses. No MPI.
#pragma once

#include <string>

#include "autotune/learnt.hpp"

namespace tapa {

/// Checks a file's text; `path` is for messages. Throws std::invalid_argument: "cache PATH: $.PLACE: VALUE,
/// expected ...".
[[nodiscard]] Learnt parse_learnt(const std::string& text, const std::string& path);

/// The file's text, format "tapa-learnt/1".
[[nodiscard]] std::string learnt_json(const Learnt& learnt);

/// Puts it into a file, whole or not at all (files/output_file.hpp); a new one is readable by the user alone.
/// What is neither empty nor begins like one of these is left. Returns why it could not, or "".
[[nodiscard]] std::string write_learnt(const std::string& path, const Learnt& learnt);

}  // namespace tapa
