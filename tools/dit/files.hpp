/// @file
/// What commands write: checked before the work, whole or not at all.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace dit::tool {

/// Throws std::invalid_argument that names the option when a file cannot be written there. Empty paths are
/// fine.
void require_writable(const std::string& option, const std::filesystem::path& path);
/// Writes a temporary file beside it and renames it. "-": the standard output.
void write_text(const std::filesystem::path& path, const std::string& text);
void write_json(const std::filesystem::path& path, const nlohmann::json& json);

}  // namespace dit::tool
