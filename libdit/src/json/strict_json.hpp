/// JSON from files that nobody vouches for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dit {

/// Parses text. Refuses malformed text, a key that is used twice in one object and nesting deeper than 8.
/// Throws std::runtime_error "WHERE: ...".
[[nodiscard]] nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

/// A whole file as text; one of more than `max_bytes` is refused before it is read.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

/// A value for an error message: short, arrays and objects by their size.
[[nodiscard]] std::string shown(const nlohmann::json& value);

}  // namespace dit
