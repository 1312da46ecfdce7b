/// @file
/// The file of earlier runs' results, untrusted as a tuning file is. No MPI.
#pragma once

#include <string>

#include "autotune/results.hpp"

namespace tapa {

/// Checks a text. Throws std::invalid_argument: "cache `path`: $.PLACE: VALUE, expected ...".
[[nodiscard]] Results parse_results(const std::string& text, const std::string& path);

/// The file's text, format "tapa-learnt/2".
[[nodiscard]] std::string results_json(const Results& results);

/// Puts it into a file, whole or not at all, readable by the user alone where it is new. A file that is
/// neither empty nor begins like one of these is left. Of more than it has room for the first shapes are
/// kept. Returns why it could not, or "".
[[nodiscard]] std::string write_results(const std::string& path, Results results);

}  // namespace tapa
