/// @file
/// What commands write: checked before the work, whole or not at all.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dit::tool {

enum class FileKind { text, picture, binary };

/// An option and the file that it names; empty: none. Text may go to "-", the standard output.
struct Output {
  std::string option;
  std::filesystem::path path;
  FileKind kind = FileKind::text;
};

/// Throws std::invalid_argument that names the option when a file cannot be written there, is not called
/// .png although a PNG, or is another option's too.
void require_outputs(const std::vector<Output>& outputs);
/// Makes the folder when there is none; throws as above. An empty path is fine.
void require_folder(const std::string& option, const std::filesystem::path& path);

/// Writes a temporary file beside it and renames it. "-": the standard output.
void write_text(const std::filesystem::path& path, const std::string& text);
void write_json(const std::filesystem::path& path, const nlohmann::json& json);

}  // namespace dit::tool
