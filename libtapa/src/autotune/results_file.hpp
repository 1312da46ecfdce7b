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

/// The same of the first shapes, as many as parse_results() takes; the others are left off.
[[nodiscard]] std::string shortened_json(Results& results);

/// Puts it into a file, whole or not at all, readable by the user alone where it is new. A file that is
/// neither empty nor begins like one of these is left. Returns why it could not, or "".
[[nodiscard]] std::string write_results(const std::string& path, const Results& results);

}  // namespace tapa
