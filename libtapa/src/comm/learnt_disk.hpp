/// @file
/// The file of what earlier runs have found, as a guest touches it: a text of at most kMostLearntBytes, whole
/// or not at all, and never in the place of anything else.
#pragma once

#include <optional>
#include <string>

namespace tapa {

/// The text of a file; nothing, with a line at TAPA_LOG=info that says why, where it cannot be read, is
/// longer, or is no regular file; without a line where there is none.
[[nodiscard]] std::optional<std::string> text_of(const std::string& path);

/// Puts it there (files/output_file.hpp); a new one is readable by the user alone. What is neither empty nor
/// begins like one of these is left. Returns why it could not, or "".
[[nodiscard]] std::string replace_file(const std::string& path, const std::string& text);

}  // namespace tapa
